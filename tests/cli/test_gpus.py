"""`sitrep gpu`, in a pipe and in a terminal."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from sitrepd.cli.gpus import COLUMNS, headline
from sitrepd.cli.gpus_live import _bar, board
from sitrepd.cli.gpus_meaning import say_gpus
from sitrepd.cli.output import table

GIB = 1 << 30
TOLD: dict[str, Any] = {
    "at": "2026-12-01T12:00:00Z",
    "driver": "580.95.05",
    "cuda_driver": "13.0",
    "gpus": [
        {
            "index": 0, "name": "NVIDIA H200", "state": "busy", "why": "power cap", "utilization_percent": 97,
            "memory_used_bytes": 88 * GIB, "memory_total_bytes": 140 * GIB, "power_w": 700.2, "power_limit_w": 700.0,
            "temperature_c": 71, "sm_clock_mhz": 1755,
            "processes": [{"pid": 4321, "name": "sglang::sched\x1b[31m", "used_bytes": 87 * GIB, "launch": "L14"},
                          {"pid": 99, "kind": "compute"}],
        },
        {"index": 1, "state": "broken", "why": "the GPU is lost", "processes": []},
    ],
}  # fmt: skip


def drawn(width: int, note: str = "") -> str:
    console = Console(width=width, record=True, file=open("/dev/null", "w"), highlight=False)  # noqa: SIM115
    with console.file:
        console.print(board(TOLD, width, note))
        return console.export_text()


@pytest.mark.parametrize("width", [58, 71, 72, 80, 91, 92, 120, 200])
def test_the_board_fits_the_terminal_and_cuts_no_figure(width: int) -> None:
    text = drawn(width)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    for said in ("busy", "broken", "97 %", "88.0", "700", "71 °C", "1755 MHz", "L14", "4321", "99", "sglang::sched"):
        assert said in text
    assert "GPU 1 broken: the GPU is lost" in text
    assert "\x1b" not in text


@pytest.mark.parametrize("width", [40, 47, 48, 57])
def test_a_very_narrow_one_leaves_out_whole_figures(width: int) -> None:
    text = drawn(width)
    assert max(map(len, text.splitlines())) <= width
    gpu = next(line for line in text.splitlines() if line.strip().startswith("0 "))
    assert "…" not in gpu
    assert ("71 °C" in gpu, "1755" in gpu) == (width >= 48, False)
    assert "97 %" in gpu
    assert "88.0 GiB" in gpu


def test_a_daemon_that_is_silent_leaves_the_last_look() -> None:
    assert "The daemon does not answer" in drawn(100, "The daemon does not answer; this is what it said last.")


def test_a_bar_is_drawn_to_an_eighth_and_never_beyond_its_room() -> None:
    assert _bar(0.5, 4, "", "green").plain.rstrip() == "██"
    assert _bar(0.53, 4, "", "green").plain.rstrip() == "██▏"
    assert _bar(7.0, 4, "", "green").plain.rstrip() == "████"
    assert _bar(None, 4, "x", "green").plain == "–"


def test_in_a_pipe_it_is_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    table(TOLD["gpus"], COLUMNS)
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["GPU", "STATE", "NAME", "BUSY", "MEMORY", "POWER", "HEAT", "CLOCK", "WHY", "PROCESSES"]
    assert "88.0 GiB of 140.0 GiB" in first
    assert "L14 (pid 4321), ? (pid 99)" in first
    assert second.split() == ["1", "broken", "the", "GPU", "is", "lost"]
    assert headline(TOLD).endswith("driver 580.95.05, CUDA 13.0")


class _Answers:
    """Stands in for a command line whose daemon gives one answer."""

    def __init__(self, data: Any) -> None:
        self.client = self
        self.data = data
        self.asked: list[Any] = []

    def get(self, path: str, **query: Any) -> Any:
        self.asked.append((path, query))
        return self


def test_what_the_gpus_of_a_benchmark_did(capsys: pytest.CaptureFixture[str]) -> None:
    figures = {"mean": 603.2, "p5": 590.0, "p95": 611.9}
    summary = {
        "gpus": [{"index": 0, "metrics": {"power_w": figures}, "throttled_s": {"power cap": 70.0}},
                 {"index": 1, "metrics": {"power_w": figures}}],
        "energy_j": 72000, "joules_per_output_token": 9.983, "throttled": ["GPU 0 throttled for 70 s of 120 s: power cap"],
    }  # fmt: skip
    cli: Any = _Answers(summary)
    say_gpus(cli, {"id": "B3", "launch": "L1"})
    assert cli.asked == [("/gpus/summary", {"benchmark": "B3"})]
    assert capsys.readouterr().out.splitlines() == [
        "gpus (mean, and the 5th to the 95th percentile):",
        "  GPU  POWER W           HELD DOWN BY",
        "  0    603 (590 to 612)  power cap 1 min 10 s",
        "  1    603 (590 to 612)",
        "  GPU 0 throttled for 70 s of 120 s: power cap",
        "  energy 72.0 kJ, 9.98 J for each output token",
    ]
    say_gpus(cli, {"id": "L3", "watched": False})
    say_gpus(cli, {"id": "B4"})
    assert len(cli.asked) == 1
