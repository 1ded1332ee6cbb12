"""What the GPUs of a launch or a benchmark did, for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sitrepd.cli import output
from sitrepd.cli.client import Refused
from sitrepd.cli.verbs import Cli

_GIB = 1 << 30
# The metric, its title, and how many of its units make one of those that are shown.
_SHOWN = (
    ("utilization", "USE %", 1), ("memory_used_bytes", "MEMORY GiB", _GIB), ("power_w", "POWER W", 1),
    ("sm_clock_mhz", "CLOCK MHz", 1), ("temperature_c", "HEAT °C", 1),
)  # fmt: skip


def say_gpus(cli: Cli, told: Mapping[str, Any]) -> None:
    """Nothing where it is not known what they did: of what was only told, or ran elsewhere."""
    kind = "launch" if str(told["id"]).startswith("L") else "benchmark"
    if not (told.get("watched") if kind == "launch" else told.get("launch")):
        return
    try:
        summary = cli.client.get("/gpus/summary", **{kind: told["id"]}).data
    except Refused:
        return
    if summary["gpus"]:
        print("gpus (mean, and the 5th to the 95th percentile):")
        for line in output.aligned(list(_lines(summary["gpus"]))):
            print(f"  {line}")
    for text in (*summary.get("throttled", ()), *_energy(summary)):
        output.say(f"  {text}")


def _lines(gpus: Sequence[Mapping[str, Any]]) -> Iterator[list[str]]:
    shown = [(name, title, unit) for name, title, unit in _SHOWN if any(name in gpu["metrics"] for gpu in gpus)]
    yield ["GPU", *(title for _, title, _ in shown), "HELD DOWN BY"]
    for gpu in gpus:
        held = ", ".join(f"{word} {output.duration(float(s))}" for word, s in gpu.get("throttled_s", {}).items())
        yield [str(gpu["index"]), *(_cell(gpu["metrics"].get(name), unit) for name, _, unit in shown), held]


def _cell(told: Mapping[str, Any] | None, unit: int) -> str:
    """94 (90 to 97)"""
    if told is None:
        return ""
    mean, low, high = (float(told[name]) / unit for name in ("mean", "p5", "p95"))
    return f"{mean:.0f} ({low:.0f} to {high:.0f})"


def _energy(summary: Mapping[str, Any]) -> Iterable[str]:
    if summary.get("energy_j") is not None:
        each = summary.get("joules_per_output_token")
        tail = f", {float(each):.2f} J for each output token" if each is not None else ""
        yield f"energy {float(summary['energy_j']) / 1000:.1f} kJ{tail}"
