"""`/metrics` as Prometheus reads it, and the Grafana dashboard that asks for it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics_parser
from tests.daemons import application

from sitrepd.hardware.gpus import GpuFacts, GpuProcess, GpuSample
from sitrepd.hardware.live import LiveHardware, Owned
from sitrepd.hardware.metrics import families
from sitrepd.hardware.sampler import Sampler
from sitrepd.launches.live import LiveLaunch

DASHBOARD = Path(__file__).parents[2] / "deploy" / "grafana" / "sitrep.json"
UUIDS = [f"GPU-{n}" for n in range(3)]
FACTS = tuple(
    GpuFacts(n, name="NVIDIA H200", uuid=UUIDS[n], power_limit_w=700.0, pcie_width=16, pcie_width_max=16,
             pcie_generation_max=5, pci_bus_id=f"0000:{n}1:00.0")
    for n in range(3)
)  # fmt: skip
BUSY = GpuSample(
    0, UUIDS[0], utilization_percent=97, memory_utilization_percent=40, memory_used_bytes=88 << 30,
    memory_reserved_bytes=1 << 30, memory_total_bytes=141 << 30, power_w=655.5, temperature_c=71, sm_clock_mhz=1980,
    memory_clock_mhz=3201, clock_reasons_mask=0x4,
)  # fmt: skip
LIVE = LiveHardware(
    host_id=1, at=datetime(2026, 12, 1, tzinfo=UTC), reason=None, driver="580.95.05", facts=FACTS,
    samples=(BUSY, replace(BUSY, index=1, uuid=UUIDS[1], utilization_percent=0, clock_reasons_mask=0x21),
             GpuSample(2, UUIDS[2], reason="the GPU is lost")),
    processes=(Owned(process=GpuProcess(0, UUIDS[0], 4321, 87 << 30, "compute"), launch_id=3, name='s"g\nl'),),
)  # fmt: skip


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What a daemon with these GPUs and a living server answers, in both formats."""
    with pytest.MonkeyPatch.context() as patch, application(tmp_path_factory.mktemp("metrics") / "store") as client:
        patch.setattr(Sampler, "show", lambda *_args, **_shown: None)
        runtime = client.app.state.runtime  # type: ignore[attr-defined]
        told = client.post("/api/v1/launches", json={"start": False, "command": "sglang", "name": 'a "b"\\c'}).json()
        number = int(told["id"][1:])

        def ready(db: Any) -> None:
            from sitrepd.launches.models import Launch

            row = db.get(Launch, number)
            row.watched, row.state = True, "ready"
            row.throughput = {
                "gen_tok_s": 94.0,
                "running": 8,
                "queued": 2,
                "accept_len": 2.8,
                "token_usage": 0.4,
                "input_tok_s": 12.5,
                "accept_rate": 0.6,
            }
            db.add(row)

        runtime.store.write(ready)
        runtime.live["hardware"] = LIVE
        runtime.live["launches"] = {number: LiveLaunch(state="ready", progress=1.0)}
        idle = runtime.activity.last(None)
        plain = client.get("/metrics")
        modern = client.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
        assert runtime.activity.last(None) == idle, "a scrape is no question"
        without = client.get("/metrics", headers={"Authorization": ""})
        yield {"plain": plain, "openmetrics": modern, "without": without, "launch": told["id"]}


@pytest.fixture(scope="module")
def values(scraped: dict[str, Any]) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    found = parser.text_string_to_metric_families(scraped["plain"].text)
    return {(one.name, frozenset(one.labels.items())): one.value for family in found for one in family.samples}


def of(values: Any, metric: str, /, **labels: str) -> list[float]:
    return [value for (one, told), value in values.items() if one == metric and labels.items() <= dict(told).items()]


def test_both_formats_are_read_by_the_official_parsers(scraped: dict[str, Any]) -> None:
    assert scraped["plain"].headers["content-type"].startswith("text/plain; version=")
    assert scraped["openmetrics"].headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    plain = list(parser.text_string_to_metric_families(scraped["plain"].text))
    modern = list(openmetrics_parser.text_string_to_metric_families(scraped["openmetrics"].text))
    assert len(plain) == len({family.name for family in plain}) > 30
    assert len(modern) > 30
    assert all(family.documentation.endswith(".") for family in modern)


def test_the_door_is_locked_for_scrapers_too(scraped: dict[str, Any]) -> None:
    assert scraped["without"].status_code == 401


def test_base_units_and_states(values: Any, scraped: dict[str, Any]) -> None:
    assert of(values, "sitrep_gpu_utilization_ratio", gpu="0") == [pytest.approx(0.97)]
    assert of(values, "sitrep_gpu_memory_used_bytes", gpu="0") == [88 << 30]
    assert of(values, "sitrep_gpu_power_watts", uuid="GPU-0") == [655.5]
    assert of(values, "sitrep_gpu_sm_clock_hertz", gpu="0") == [1.98e9]
    assert of(values, "sitrep_gpu_throttled", gpu="0", reason="power cap") == [1]
    assert of(values, "sitrep_gpu_throttled", gpu="1", reason="power cap") == [0]
    assert of(values, "sitrep_gpu_throttled", gpu="1", reason="thermal (software)") == [1]
    words = {
        gpu: [dict(labels)["state"] for (name, labels), value in values.items()
              if name == "sitrep_gpu_state" and dict(labels)["gpu"] == gpu and value == 1]
        for gpu in "012"
    }  # fmt: skip
    assert words == {"0": ["busy"], "1": ["throttling"], "2": ["broken"]}
    assert of(values, "sitrep_gpu_up") == [1, 1, 0]
    assert of(values, "sitrep_gpu_power_watts", gpu="2") == []
    assert of(values, "sitrep_gpu_process_memory_bytes", pid="4321", launch="L3", name='s"g\nl') == [87 << 30]
    launch = scraped["launch"]
    assert of(values, "sitrep_launch_info", launch=launch, name='a "b"\\c') == [1]
    assert of(values, "sitrep_launch_generation_tokens_per_second", launch=launch) == [94.0]
    assert of(values, "sitrep_launch_requests_queued", launch=launch) == [2]
    assert of(values, "sitrep_launches", state="ready") == [1]


def test_without_a_driver_nothing_of_now_is_told() -> None:
    told = {family.name: family for family in families(replace(LIVE, reason="the NVIDIA driver went away"))}
    assert told["sitrep_gpu_driver_up"].samples[0].value == 0
    assert {sample.value for sample in told["sitrep_gpu_up"].samples} == {0}
    assert told["sitrep_gpu_power_watts"].samples == []
    assert len(told["sitrep_gpu"].samples) == 3


# --- the dashboard of deploy/ ------------------------------------------------------------------------------------


def expressions(board: dict[str, Any]) -> Iterator[str]:
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["definition"]


def test_every_metric_of_the_grafana_dashboard_exists(values: Any) -> None:
    board = json.loads(DASHBOARD.read_text())
    asked = {name for text in expressions(board) for name in re.findall(r"sitrep_\w+", text)}
    live = replace(LIVE, samples=tuple(_everything(sample) for sample in LIVE.samples))
    known = {name for name, _ in values} | {sample.name for family in families(live) for sample in family.samples}
    assert len(asked) > 15
    assert asked - known == set()


def _everything(sample: GpuSample) -> Any:
    """With what few GPUs tell."""
    names = [*GpuSample.__slots__, "throttle", "throttled"]
    rare = {"memory_temperature_c": 80, "remapped_rows": 1, "ecc_corrected": 2, "ecc_uncorrected": 0, "pcie_replays": 3}
    return SimpleNamespace(**{name: getattr(sample, name) for name in names} | rare | {"remap_failed": False})


def test_the_grafana_dashboard_is_whole() -> None:
    board = json.loads(DASHBOARD.read_text())
    numbers = [panel["id"] for panel in board["panels"]]
    assert len(numbers) == len(set(numbers))
    assert board["schemaVersion"] >= 36
    assert {"uid", "title", "panels", "templating", "time"} <= board.keys()
    for panel in board["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        for target in panel.get("targets", ()):
            assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    taken: dict[tuple[int, int], str] = {}
    for panel in board["panels"]:
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in taken, f"{panel['title']} lies on {taken[(x, y)]}"
                taken[(x, y)] = panel["title"]
