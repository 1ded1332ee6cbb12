"""The page of the GPUs, by HTTP."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from sitrepd.clock import utc_now
from sitrepd.dashboard import assets
from sitrepd.hardware import newest
from sitrepd.hardware.gpus import GpuFacts, GpuSample
from sitrepd.hardware.live import LiveHardware
from sitrepd.hardware.machine import read_machine
from sitrepd.hardware.models import HostSnapshot as Row
from sitrepd.hardware.service import Hardware
from sitrepd.hardware.snapshot import combine
from sitrepd.launches.models import Launch

if TYPE_CHECKING:
    from fastapi.testclient import TestClient
    from sqlmodel import Session

GPUS = tuple(GpuFacts(n, name="NVIDIA H200", uuid=f"GPU-{n}", architecture="Hopper") for n in range(2))


def runtime_of(client: TestClient) -> Any:
    return client.app.state.runtime  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def nothing_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """What these tests tell of the GPUs stays."""

    async def run(_: Hardware) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(Hardware, "run", run)


@pytest.fixture
def observed(nothing_is_looked_at: None, client: TestClient) -> TestClient:  # noqa: ARG001
    """A machine with two GPUs, one lost, and a launch that ran for a minute."""
    runtime = runtime_of(client)
    samples = (GpuSample(0, "GPU-0", utilization_percent=3), GpuSample(1, "GPU-1", reason="the <b>GPU</b> is lost"))
    machine = replace(read_machine(), boot_id=None)
    seen = combine(machine, GPUS, (("X", "NV18"), ("NV18", "X")), driver="580.1")
    now = utc_now()

    def tell(db: Session) -> None:
        data = seen.model_dump(mode="json")
        db.add(Row(host_id=runtime.host_id, at=datetime(2026, 12, 1, tzinfo=UTC), digest="d", data=data))
        rows = [
            {
                "host_id": runtime.host_id,
                "gpu": 0,
                "at": now - timedelta(seconds=s),
                "power_w": 500.0,
                "clock_reasons": 0x40,
            }
            for s in range(60)
        ]
        newest.add(db, rows)
        since = now - timedelta(seconds=60)
        db.add(
            Launch(
                id=7, name="<i>two</i> steps", watched=True, host_id=runtime.host_id, started_at=since, ended_at=now,
                state="exited", provenance="observed:launch", at=since, observed_at=since,
            )
        )  # fmt: skip

    runtime.store.write(tell)
    runtime.live["hardware"] = LiveHardware(host_id=runtime.host_id, reason=None, facts=GPUS, samples=samples)
    return client


def test_the_page_shows_how_each_is_what_ran_and_the_machine(observed: TestClient) -> None:
    page = observed.get("/gpus?range=1h")
    assert page.status_code == 200
    text = page.text
    assert 'data-word="idle"' in text
    assert 'data-word="broken"' in text
    assert "the &lt;b&gt;GPU&lt;/b&gt; is lost" in text
    assert 'data-length="3600"' in text
    assert text.count("<figure data-metric=") == 6
    assert "&lt;i&gt;two&lt;/i&gt; steps" in text
    assert "NV18 between all" in text
    assert "<td>NV18</td>" in text
    assert 'data-length="900"' in observed.get("/gpus?range=nonsense").text
    assert '<a class="more" href="/gpus">' not in text
    assert "Hopper" in text
    assert 'data-word="broken"' in observed.get("/gpus/now").text


def test_the_snapshot_is_told_with_its_words(observed: TestClient) -> None:
    told = observed.get("/api/v1/hosts/current/snapshot").json()
    assert told["at"] == "2026-12-01T00:00:00Z"
    assert {"what": "paths between GPUs", "text": "NV18 between all"} in told["words"]
    assert told["facts"]["driver"] == "580.1"
    observed.post("/api/v1/sessions", json={"name": "s"})
    host = observed.post("/api/v1/hosts", json={"name": "elsewhere"}).json()["id"]
    assert observed.get(f"/api/v1/hosts/{host}/snapshot").status_code == 404


def test_a_launch_tells_what_its_gpus_did(observed: TestClient) -> None:
    assert 'hx-get="/f/L7/gpus"' in observed.get("/f/L7").text
    part = observed.get("/f/L7/gpus").text
    assert "throttled for 60 s of 60 s: thermal (hardware)" in part
    assert "500 (500 to 500)" in part
    assert "Energy 30.0 kJ" in part


def test_what_was_only_told_has_no_such_part(client: TestClient) -> None:
    client.post("/api/v1/sessions", json={"name": "s"})
    told = client.post("/api/v1/launches", json={"start": False, "command": "sglang"}).json()["id"]
    assert "/gpus" not in client.get(f"/f/{told}").text.partition("<main")[2].partition("<footer")[0]
    assert client.get(f"/f/{told}/gpus").text.strip() == ""


def test_a_machine_without_gpus_has_a_page_too(client: TestClient) -> None:
    page = client.get("/gpus")
    assert page.status_code == 200
    assert "<figure" not in page.text


def test_what_is_vendored_is_served_and_has_its_licence(client: TestClient) -> None:
    for name in ("gpus.js", "vendor/uplot-1.6.32.min.js", "vendor/uplot-1.6.32.min.css", "vendor/LICENSE.uplot"):
        assert client.get(assets.url(name)).status_code == 200
    assert (assets.FOLDER / "vendor" / "LICENSE.uplot").read_text().startswith("The MIT License")
