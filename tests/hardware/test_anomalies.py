"""What is wrong with GPUs becomes a finding to confirm: once, with figures, and told when it is over."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlmodel import Session
from tests.daemons import application

from sitrepd.clock import utc_now
from sitrepd.hardware import newest
from sitrepd.hardware.anomalies import errors, lagging, narrow, throttling
from sitrepd.hardware.gpus import GpuFacts, GpuProcess, GpuSample
from sitrepd.hardware.live import LiveHardware, Owned
from sitrepd.hardware.models import Host
from sitrepd.hardware.service import Hardware
from sitrepd.hardware.watch import Watch, xid
from sitrepd.launches.live import LiveLaunch
from sitrepd.launches.models import Launch
from sitrepd.storage import events

CAP, HEAT = 0x4, 0x40
GIB = 1 << 30
HOST = 77
RECORDED = Path(__file__).parents[1] / "data" / "h200-series.jsonl"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    """A daemon that looks at no GPUs by itself, with session S1 open and a host for each test to fill."""

    async def run(_: Hardware) -> None:
        await asyncio.Event().wait()

    with pytest.MonkeyPatch.context() as patch, application(tmp_path / "store") as found:
        patch.setattr(Hardware, "run", run)
        assert found.post("/api/v1/sessions", json={"name": "s"}).status_code == 201
        write(found, lambda db: db.add(Host(id=HOST, name="box", provenance="observed")))
        yield found


def runtime_of(client: TestClient) -> Any:
    return client.app.state.runtime  # type: ignore[attr-defined]


def write(client: TestClient, job: Any) -> None:
    runtime_of(client).store.write(job)


def read(client: TestClient, look: Any) -> Any:
    with runtime_of(client).store.read() as db:
        return look(db)


def sampled(client: TestClient, gpu: int, now: datetime, seconds: int, **values: Any) -> None:
    told = {"utilization": 99, "sm_clock_mhz": 1980, "power_w": 650.0, "temperature_c": 70, "clock_reasons": 0} | values
    rows = [
        {"host_id": HOST, "gpu": gpu, "at": now - timedelta(seconds=s)}
        | {name: value(s) if callable(value) else value for name, value in told.items()}
        for s in range(seconds, 0, -1)
    ]
    write(client, lambda db: newest.add(db, rows))


def findings(client: TestClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get("/api/v1/sessions/S1/findings").json()["data"]
    return found[::-1]


# --- throttling --------------------------------------------------------------------------------------------------


def test_heat_under_load_is_news_and_a_passing_power_cap_is_none(client: TestClient) -> None:
    now = utc_now()
    sampled(client, 0, now, 60, clock_reasons=lambda s: HEAT if s <= 20 else 0, temperature_c=90)
    sampled(client, 1, now, 60, clock_reasons=CAP)
    sampled(client, 2, now, 60, clock_reasons=HEAT, utilization=3)
    sampled(client, 3, now, 60, clock_reasons=lambda s: HEAT if s <= 5 else 0)
    [found] = read(client, lambda db: throttling(db, HOST, range(4), range(4), now))
    assert (found.key, found.gpus) == ("throttling", (0,))
    assert found.title == "GPU 0: clocks held down under load by heat or a fault"
    assert found.detail == "GPU 0: thermal (hardware) in 20 of 60 s; clock 1980 MHz, up to 90 °C, 650 W"


def test_a_power_cap_is_news_where_it_lasts_and_costs_much_of_the_clock(client: TestClient) -> None:
    now = utc_now()
    sampled(client, 0, now, 700, clock_reasons=CAP, sm_clock_mhz=lambda s: 1980 if s > 650 else 1400)
    sampled(client, 1, now, 700, clock_reasons=CAP, sm_clock_mhz=lambda s: 1980 if s > 650 else 1900)
    [found] = read(client, lambda db: throttling(db, HOST, (), (0, 1), now))
    assert (found.key, found.gpus) == ("power cap", (0,))
    assert "clock 1400 MHz" in found.detail


def test_one_that_lags_behind_its_peers(client: TestClient) -> None:
    now = utc_now()
    for gpu in range(4):
        sampled(client, gpu, now, 300, sm_clock_mhz=1700 if gpu == 2 else 1980)
    found = read(client, lambda db: lagging(db, HOST, range(4), now))
    assert (found.key, found.gpus, found.kind) == ("slower", (2,), "hypothesis")
    assert found.detail == "Mean clock of 5 min. GPU 2: 1700 MHz, the others 1980 MHz"
    assert read(client, lambda db: lagging(db, HOST, (0, 2), now)) is None, "two have no majority"
    assert read(client, lambda db: lagging(db, HOST, (0, 1, 3), now)) is None


# --- what does not depend on load --------------------------------------------------------------------------------


def test_errors_of_the_memory(client: TestClient) -> None:
    now = utc_now()
    rare = {"ecc_uncorrected": 2, "ecc_corrected": 0, "remap_failed": False, "remap_pending": True}
    bad: Any = SimpleNamespace(index=3, **rare)
    good: Any = SimpleNamespace(index=4, ecc_uncorrected=0, ecc_corrected=7)
    write(client, lambda db: newest.add(db, [{"host_id": HOST, "gpu": 4, "at": now, "ecc_corrected": 7}]))
    [found] = read(client, lambda db: errors(db, HOST, [bad, good], now + timedelta(seconds=1)))
    assert found.title == "GPU 3: errors of its memory"
    assert found.detail == (
        "2 uncorrected since the driver was loaded; a faulty row is replaced when the GPU is reset the next time"
    )
    before = now - timedelta(hours=3)
    write(client, lambda db: newest.add(db, [{"host_id": HOST, "gpu": 5, "at": before, "ecc_corrected": 1},
                                             {"host_id": HOST, "gpu": 5, "at": now, "ecc_corrected": 400}]))  # fmt: skip
    many: Any = SimpleNamespace(index=5, ecc_corrected=400)
    [found] = read(client, lambda db: errors(db, HOST, [many], now + timedelta(seconds=1)))
    assert found.detail == "399 corrected within a day"
    # Another start of the driver counts from nothing.
    again: Any = SimpleNamespace(index=5, ecc_corrected=3)
    assert read(client, lambda db: errors(db, HOST, [again], now + timedelta(seconds=1))) == []


def test_a_link_below_its_best() -> None:
    gpus = [
        GpuFacts(0, uuid="a", pcie_width=16, pcie_width_max=16, pcie_generation=1, pcie_generation_max=5),
        GpuFacts(1, uuid="b", pcie_width=8, pcie_width_max=16, pcie_generation=5, pcie_generation_max=5),
        GpuFacts(2, uuid="c"),
    ]
    [found] = narrow(gpus, {})
    assert (found.gpus, found.detail) == ((1,), "GPU 1: x8, could be x16")
    [found] = narrow(gpus, {"a": 1})
    assert found.detail == "GPU 0: Gen1 under load, could be Gen5; GPU 1: x8, could be x16"
    assert narrow(gpus[::2], {}) == []


def test_an_xid_says_which_gpu_and_process() -> None:
    told = xid(
        {"xid": 79, "gpu": 3, "pci": "0000:c1:00", "meaning": "the GPU has fallen off the bus", "pid": 7, "name": "x"}
    )
    assert (told.key, told.title) == ("xid 79 of GPU 3", "Xid 79 of GPU 3")
    assert told.detail == "the GPU has fallen off the bus; pid 7 (x)"
    assert xid({"xid": 999, "pci": "0000:01:00"}).title == "Xid 999 of the GPU at 0000:01:00"


# --- the recorded series of a real H200 --------------------------------------------------------------------------


def test_three_servers_and_their_benchmarks_on_a_real_gpu_raise_no_false_alarm(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Power caps in passing, starts and stops: the watch looks every ten seconds, and has nothing to say."""
    runtime, began = runtime_of(client), utc_now() - timedelta(seconds=400)
    told = [json.loads(line) for line in RECORDED.read_text().splitlines()]
    rows = [(began + timedelta(seconds=one["t"] - told[0]["t"]), one) for one in told]
    watch, looked, server = Watch(runtime, HOST), began, None
    assert sum(one["reasons"] == CAP for _, one in rows) > 15
    for at, one in rows:
        if bool(one["procs"]) != (server is not None):
            server = _started_or_ended(client, server, at)
        if at < looked + timedelta(seconds=10):
            continue
        mine = [_row(then, what) for then, what in rows if looked <= then < at]
        write(client, lambda db, mine=mine: newest.add(db, mine))
        sample = GpuSample(
            0, "GPU-0", utilization_percent=one["gpu"], memory_used_bytes=one["used"], power_w=one["power"] / 1000,
            sm_clock_mhz=one["sm"], clock_reasons_mask=one["reasons"],
        )  # fmt: skip
        runtime.live["launches"] = {server: LiveLaunch(state="ready")} if server else {}
        runtime.live["hardware"] = LiveHardware(host_id=HOST, reason=None, facts=facts(0), samples=(sample,))
        tick(client, watch, monkeypatch, at)
        looked = at
        assert runtime.live["gpu_leaks"] == {}
    assert len(client.get("/api/v1/launches").json()["data"]) == 3
    assert findings(client) == []


def _started_or_ended(client: TestClient, server: int | None, at: datetime) -> int | None:
    if server is None:
        return launch(client, [0], started_at=at)

    def end(db: Session) -> None:
        row = db.get(Launch, server)
        assert row is not None
        row.state, row.ended_at = "exited", at
        db.add(row)

    write(client, end)
    return None


def _row(at: datetime, one: dict[str, Any]) -> dict[str, Any]:
    return {
        "host_id": HOST, "gpu": 0, "at": at, "utilization": one["gpu"], "memory_used_bytes": one["used"],
        "power_w": one["power"] / 1000, "sm_clock_mhz": one["sm"], "clock_reasons": one["reasons"],
    }  # fmt: skip


# --- the watch ---------------------------------------------------------------------------------------------------


def launch(client: TestClient, gpus: list[int], **more: Any) -> int:
    told = client.post("/api/v1/launches", json={"start": False, "command": "sglang", "name": "two"}).json()
    number = int(told["id"][1:])

    def follow(db: Session) -> None:
        row = db.get(Launch, number)
        assert row is not None
        row.watched, row.host_id, row.started_at, row.state = True, HOST, utc_now(), "ready"
        for name, value in more.items():
            setattr(row, name, value)
        db.add(row)

    write(client, follow)
    body = {"resource": "gpu", "numbers": gpus, "launch": told["id"], "host": f"H{HOST}", "owner": "anna"}
    assert client.post("/api/v1/claims", json=body).status_code == 201
    return number


def facts(*gpus: int, **more: Any) -> tuple[GpuFacts, ...]:
    return tuple(GpuFacts(gpu, uuid=f"GPU-{gpu}", **more) for gpu in gpus)


def tick(client: TestClient, watch: Watch, monkeypatch: pytest.MonkeyPatch, at: datetime) -> None:
    monkeypatch.setattr("sitrepd.hardware.watch.utc_now", lambda: at)
    monkeypatch.setattr("sitrepd.hardware.watch.monotonic", at.timestamp)
    client.portal.call(watch.tick)  # type: ignore[union-attr]


def test_it_is_told_once_grows_and_is_over(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime, now = runtime_of(client), utc_now()
    number = launch(client, [0, 1])
    other = launch(client, [2])
    runtime.live["launches"] = {number: LiveLaunch(state="ready"), other: LiveLaunch(state="ready")}
    for gpu in (0, 1, 2):
        sampled(client, gpu, now, 60, clock_reasons=HEAT if gpu == 0 else 0)
    samples = tuple(GpuSample(n, f"GPU-{n}", utilization_percent=99, clock_reasons_mask=HEAT) for n in (0, 1, 2))
    live = LiveHardware(host_id=HOST, reason=None, facts=facts(0, 1, 2), samples=samples)
    runtime.live["hardware"] = live
    watch = Watch(runtime, HOST)
    tick(client, watch, monkeypatch, now)
    tick(client, watch, monkeypatch, now)
    [found] = findings(client)
    assert found["kind"] == "observation"
    assert found["status"] == "open"
    assert found["provenance"] == "observed:gpu throttling"
    assert found["title"] == "GPU 0: clocks held down under load by heat or a fault"
    assert found["evidence"] == [f"L{number}"]
    assert found["detail"].startswith("Since ")
    changes = read(client, lambda db: [e.kind for e in events.events_after(db, 0) if e.kind.startswith("finding.")])
    assert changes == ["finding.created"]

    later = now + timedelta(seconds=30)
    sampled(client, 1, later, 29, clock_reasons=HEAT)
    tick(client, watch, monkeypatch, later)
    [found] = findings(client)
    assert found["title"].startswith("GPU 0-1: ")

    # The daemon dies; the next one knows what was under way, and sees that it is over.
    runtime.live["hardware"] = replace(live, samples=tuple(replace(one, utilization_percent=0) for one in samples))
    again = Watch(runtime, HOST)
    tick(client, again, monkeypatch, later + timedelta(seconds=10))
    assert " Over since " not in findings(client)[0]["detail"]
    tick(client, again, monkeypatch, later + timedelta(seconds=90))
    tick(client, again, monkeypatch, later + timedelta(seconds=100))
    [found] = findings(client)
    assert found["detail"].count(" Over since ") == 1
    assert found["status"] == "open"

    # Once a person has settled it, the same is news again.
    client.patch(f"/api/v1/findings/{found['id']}", json={"status": "confirmed"})
    runtime.live["hardware"] = live
    tick(client, again, monkeypatch, later)
    assert [one["status"] for one in findings(client)] == ["confirmed", "open"]


def test_what_was_settled_and_goes_on_is_no_news_to_the_next_daemon(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error counts until the driver is loaded anew: it is told once, however often the daemon starts."""
    runtime, now = runtime_of(client), utc_now()
    samples = (GpuSample(0, "GPU-0", utilization_percent=0, ecc_uncorrected=1),)
    live = LiveHardware(host_id=HOST, reason=None, facts=facts(0), samples=samples)
    runtime.live["hardware"] = live
    tick(client, Watch(runtime, HOST), monkeypatch, now)
    [found] = findings(client)
    client.patch(f"/api/v1/findings/{found['id']}", json={"status": "refuted"})
    for minutes in (1, 2, 3):
        tick(client, Watch(runtime, HOST), monkeypatch, now + timedelta(minutes=minutes))
    assert [one["status"] for one in findings(client)] == ["refuted"]

    runtime.live["hardware"] = replace(live, samples=(*samples, replace(samples[0], index=1, uuid="GPU-1")))
    tick(client, Watch(runtime, HOST), monkeypatch, now + timedelta(minutes=4))
    assert [one["title"] for one in findings(client)][1:] == ["GPU 1: errors of its memory"]


def test_a_clock_that_jumps_ends_nothing(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime, now = runtime_of(client), utc_now()
    samples = (GpuSample(0, "GPU-0", utilization_percent=0, ecc_uncorrected=1),)
    live = LiveHardware(host_id=HOST, reason=None, facts=facts(0), samples=samples)
    runtime.live["hardware"] = live
    watch = Watch(runtime, HOST)
    tick(client, watch, monkeypatch, now)
    # For one look the GPU does not answer; meanwhile the clock is set an hour on, and then back.
    for jump in (timedelta(hours=1), timedelta(hours=-1)):
        monkeypatch.setattr("sitrepd.hardware.watch.utc_now", lambda at=now + jump: at)
        runtime.live["hardware"] = replace(live, samples=())
        client.portal.call(watch.tick)  # type: ignore[union-attr]
        runtime.live["hardware"] = live
        client.portal.call(watch.tick)  # type: ignore[union-attr]
    [found] = findings(client)
    assert " Over since " not in found["detail"]


def test_memory_that_is_held_after_a_stop(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime, now = runtime_of(client), utc_now()
    runtime.live["launches"] = {}
    ended = {"state": "exited", "started_at": now - timedelta(hours=1), "ended_at": now - timedelta(seconds=120)}
    number = launch(client, [0, 1], **ended)
    sampled(client, 0, now, 150, memory_used_bytes=80 * GIB)
    # Free for a moment after the stop: what is there now belongs to somebody else.
    sampled(client, 1, now, 150, memory_used_bytes=lambda s: 0 if s == 100 else 80 * GIB)
    samples = tuple(
        GpuSample(gpu, f"GPU-{gpu}", utilization_percent=0, memory_used_bytes=80 * GIB) for gpu in (0, 1, 2)
    )
    live = LiveHardware(host_id=HOST, reason=None, facts=facts(0, 1, 2), samples=samples)
    runtime.live["hardware"] = live
    watch = Watch(runtime, HOST)
    tick(client, watch, monkeypatch, now)
    [found] = findings(client)
    assert found["title"] == f"GPU 0: memory still held after the end of L{number}"
    assert f"80.0 GiB are held by no process that is seen, since L{number} has ended" in found["detail"]
    assert list(runtime.live["gpu_leaks"]) == ["GPU-0"]
    gpus = client.get("/api/v1/gpus").json()["gpus"]
    assert [gpu["state"] for gpu in gpus] == ["leaking", "idle", "idle"]

    # A process of it that is still there is named.
    process = Owned(process=GpuProcess(0, "GPU-0", 4321, 79 * GIB, "compute"), launch_id=number, name="sglang::sched")
    runtime.live["hardware"] = replace(live, processes=(process,))
    tick(client, watch, monkeypatch, now)
    assert runtime.live["gpu_leaks"]["GPU-0"] == (
        f"pid 4321 (sglang::sched) of L{number}, which has ended, still holds 79.0 GiB"
    )
    # Somebody else's process is nobody's leak, and neither is the next launch.
    runtime.live["hardware"] = replace(live, processes=(replace(process, launch_id=None),))
    tick(client, watch, monkeypatch, now)
    assert runtime.live["gpu_leaks"] == {}
    runtime.live["hardware"] = live
    runtime.live["launches"] = {launch(client, [0]): LiveLaunch(state="loading")}
    tick(client, watch, monkeypatch, now)
    assert runtime.live["gpu_leaks"] == {}


def test_memory_that_was_held_before_the_start_is_not_left_behind(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of another container, say, whose processes are not seen."""
    runtime, now = runtime_of(client), utc_now()
    runtime.live["launches"] = {}
    began, ended = now - timedelta(seconds=200), now - timedelta(seconds=100)
    number = launch(client, [0, 1], state="exited", started_at=began, ended_at=ended)
    sampled(client, 0, now, 300, memory_used_bytes=lambda s: (90 if 100 < s <= 200 else 60) * GIB)
    sampled(client, 1, now, 300, memory_used_bytes=lambda s: (90 if s <= 200 else 60) * GIB)
    samples = tuple(
        GpuSample(n, f"GPU-{n}", utilization_percent=0, memory_used_bytes=g * GIB) for n, g in ((0, 60), (1, 90))
    )
    runtime.live["hardware"] = LiveHardware(host_id=HOST, reason=None, facts=facts(0, 1), samples=samples)
    tick(client, Watch(runtime, HOST), monkeypatch, now)
    assert runtime.live["gpu_leaks"] == {
        "GPU-1": f"30.0 GiB are held by no process that is seen, since L{number} has ended"
    }


def test_a_server_that_has_just_ended_may_take_its_time(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime, now = runtime_of(client), utc_now()
    launch(client, [0], state="exited", ended_at=now - timedelta(seconds=20))
    sampled(client, 0, now, 60, memory_used_bytes=80 * GIB)
    samples = (GpuSample(0, "GPU-0", utilization_percent=0, memory_used_bytes=80 * GIB),)
    runtime.live["hardware"] = LiveHardware(host_id=HOST, reason=None, facts=facts(0), samples=samples)
    tick(client, Watch(runtime, HOST), monkeypatch, now)
    assert findings(client) == []


def test_an_xid_between_the_start_and_the_first_look_is_not_missed(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime, now = runtime_of(client), utc_now()
    runtime.live["hardware"] = LiveHardware(host_id=HOST, reason=None, facts=facts(0))
    write(client, lambda db: events.record(db, "host.xid", f"H{HOST}", None, xid=79, gpu=0))
    tick(client, Watch(runtime, HOST), monkeypatch, now)
    assert findings(client) == []
    tick(client, Watch(runtime, HOST, now), monkeypatch, now)
    assert [one["title"] for one in findings(client)] == ["Xid 79 of GPU 0"]


def test_xids_and_links_are_told_to_every_open_session(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime, now = runtime_of(client), utc_now()
    assert client.post("/api/v1/sessions", json={"name": "t"}).status_code == 201
    narrow_link = facts(0, pcie_width=8, pcie_width_max=16)
    runtime.live["hardware"] = LiveHardware(host_id=HOST, reason=None, facts=narrow_link)
    watch = Watch(runtime, HOST)
    tick(client, watch, monkeypatch, now)
    data = {"xid": 31, "gpu": 0, "pci": "0000:01:00", "meaning": "GPU memory page fault"}
    write(client, lambda db: events.record(db, "host.xid", f"H{HOST}", None, **data))
    tick(client, watch, monkeypatch, now)
    write(client, lambda db: events.record(db, "host.xid", f"H{HOST}", None, **data))
    for seconds in (10, 200, 210):
        tick(client, watch, monkeypatch, now + timedelta(seconds=seconds))
    for session in ("S1", "S2"):
        found = client.get(f"/api/v1/sessions/{session}/findings").json()["data"][::-1]
        assert [one["title"] for one in found] == ["GPU 0: PCIe link below what it could be", "Xid 31 of GPU 0"]
        assert "Over since" not in found[1]["detail"]
        assert "Over since" not in found[0]["detail"]
