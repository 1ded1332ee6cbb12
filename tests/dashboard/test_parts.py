"""What the parts of a page say, from rows and from what is alive."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sitrepd.dashboard import live
from sitrepd.dashboard.documents import to_html
from sitrepd.dashboard.parts import PARTS, concerned, gpus, launches
from sitrepd.dashboard.progress import progress, title
from sitrepd.hardware.gpus import GpuFacts, GpuProcess, GpuSample
from sitrepd.hardware.live import LiveHardware, Owned
from sitrepd.launches.live import LiveLaunch
from sitrepd.launches.models import LaunchPublic, Phase

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
PRO = "NVIDIA RTX PRO 6000 Blackwell"


def launch(**told: Any) -> LaunchPublic:
    base = {"id": "L3", "at": NOW, "provenance": "observed", "observed_at": NOW, "name": "3 steps", "watched": True}
    return LaunchPublic.model_validate(base | told)


@pytest.mark.parametrize(
    ("kinds", "parts"),
    [
        (["finding.created", "finding.changed"], ["findings"]),
        (["launch.changed"], ["launches", "steps"]),
        (["benchmark.created"], ["steps", "benchmarks"]),
        (["delivery.created"], ["checkpoint"]),
        (["session.imported"], list(PARTS)),
        (["launch.progress", "message.created", "folder.tied", "nonsense"], []),
    ],
)
def test_only_the_parts_that_a_change_concerns(kinds: list[str], parts: list[str]) -> None:
    assert concerned(kinds) == parts


def test_progress_is_never_ahead_of_itself() -> None:
    shown = progress(LiveLaunch(state="loading", title="Loading weights", done=637, total=640, unit="shards"))
    assert (shown.percent, shown.count) == ("99 %", "637 of 640 shards")
    assert title("3 steps", shown) == "99 % Loading weights: 3 steps"


def test_progress_without_a_bar() -> None:
    shown = progress(LiveLaunch(state="warming", phase="warmup", title="Warming up", elapsed_s=75))
    assert (shown.share, shown.percent, shown.count, shown.left) == (None, "", "", "")
    assert shown.values("L3")["L3.elapsed"] == "1 min 15 s"


def test_the_time_line_ends_where_the_server_will_be_ready() -> None:
    began = NOW - timedelta(seconds=60)
    phases = [
        Phase(name="starting", started_at=began, ended_at=began + timedelta(seconds=30)),
        Phase(name="load_weights", started_at=began + timedelta(seconds=30)),
    ]
    alive = {3: LiveLaunch(state="loading", phase="load_weights", remaining_s=60, remaining_of="start")}
    panel = launches.panel(launch(started_at=began, phases=phases, state="loading"), alive, NOW)
    first, second = panel.phases
    assert (first.x, first.width, first.open, first.time) == (0.0, 250.0, False, "30 s")
    assert (second.x, second.width, second.open) == (250.0, 250.0, True)
    assert panel.rest == 500.0


def test_an_imported_launch_is_never_shown_as_alive() -> None:
    told = launch(watched=False, state="loading", provenance="imported:x")
    panel = launches.panel(told, {3: LiveLaunch(state="loading")}, NOW)
    assert panel.recorded
    assert panel.now is None


def test_a_launch_told_without_times_has_phases_all_the_same() -> None:
    told = launch(watched=False, state="loading", phases=[Phase(name="my_phase", progress=0.25)])
    (row,) = launches.panel(told, {}, NOW).phases
    assert (row.title, row.note, row.time) == ("my phase", "25 %", "")


def test_the_command_of_a_launch_that_was_told_as_argv() -> None:
    panel = launches.panel(launch(argv=["serve", "a b"], env={"X": "1 2"}), {}, NOW)
    assert panel.command == "X='1 2' serve 'a b'"


def facts(count: int = 2, **more: Any) -> tuple[GpuFacts, ...]:
    return tuple(
        GpuFacts(index, PRO, f"u{index}", memory_bytes=100 << 30, pcie="Gen5 x16", **more) for index in range(count)
    )


def test_tiles_say_what_the_driver_tells() -> None:
    sample = GpuSample(
        1,
        "u1",
        utilization_percent=97,
        memory_used_bytes=25 << 30,
        power_w=411.6,
        temperature_c=86,
        clock_reasons_mask=0x20,
    )
    process = GpuProcess(1, "u1", 4711, 24 << 30, "compute")
    owned = Owned(process=process, launch_id=14)
    known = LiveHardware(host_id=1, reason=None, facts=facts(), samples=(sample,), processes=(owned,))
    silent, busy = gpus.tiles(known)
    assert (silent.utilization_text, silent.memory_text, silent.power, silent.owners) == ("–", "–", "–", [])
    assert (busy.utilization, busy.memory) == (0.97, 0.25)
    assert (busy.utilization_text, busy.memory_text, busy.power, busy.temperature) == (
        "97 %",
        "25.0 GiB",
        "412 W",
        "86 °C",
    )
    assert (silent.state, busy.state, busy.notice) == ("unknown", "throttling", "thermal (software)")
    assert busy.owners == [("L14", "24.0 GiB")]
    assert gpus.describe(known) == f"2 × {PRO}, 100.0 GiB each, PCIe Gen5 x16"


def test_gpus_that_differ_are_named_one_by_one() -> None:
    known = LiveHardware(facts=(*facts(1), GpuFacts(1, "NVIDIA H200", "u1", memory_bytes=141 << 30)))
    assert [tile.name for tile in gpus.tiles(known)] == [f"{PRO}, 100.0 GiB, Gen5 x16", "NVIDIA H200, 141.0 GiB"]


def test_a_gpu_is_drawn_anew_only_when_something_else_is_on_it() -> None:
    one = LiveHardware(facts=facts(), samples=(GpuSample(0, "u0", power_w=80),))
    warmer = LiveHardware(facts=facts(), samples=(GpuSample(0, "u0", power_w=300),))
    taken = LiveHardware(facts=facts(), processes=(Owned(process=GpuProcess(0, "u0", 1, 1, "compute")),))
    assert gpus.composition(one) == gpus.composition(warmer)
    assert gpus.composition(one) != gpus.composition(taken)


def test_only_what_moved_is_sent() -> None:
    assert live.changes({"a": "1", "b": "2", "c": None}, {"a": "1", "b": "3"}) == {"b": "3", "c": None}
    assert live.changes({}, {"a": None}) == {"a": None}


def test_a_checkpoint_cannot_bring_markup_or_addresses_into_a_page() -> None:
    html = to_html("## A\n\n- <script>x</script> ![i](http://e/x.png) [a](javascript:b)\n\n```\n<b>\n```\n", deeper=1)
    assert "<h3>A</h3>" in html
    assert "<script" not in html
    assert "<img" not in html
    assert "<a " not in html
    assert "&lt;b&gt;" in html
