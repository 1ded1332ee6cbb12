"""`sitrep gpu`: the GPUs of the daemon's machine, now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import typer

from sitrepd.cli import output
from sitrepd.cli.output import Column
from sitrepd.cli.verbs import Cli, verb

app = typer.Typer()


@verb(app, "gpu")
def gpu(cli: Cli) -> None:
    """The latest reading of each GPU."""
    cli.show(cli.client.get("/gpus"), _say)


def _say(told: dict[str, Any]) -> None:
    output.table(told["gpus"], COLUMNS, told.get("reason") or "No NVIDIA GPU found.")
    if told["gpus"]:
        said = {"At": output.local_time(told.get("at")), "driver": told.get("driver"), "CUDA": told.get("cuda_driver")}
        output.say(", ".join(f"{name} {value}" for name, value in said.items() if value))
        if told.get("reason"):
            output.say(told["reason"])


def _of(key: str, unit: str, whole: str | None = None) -> Callable[[Mapping[str, Any]], str]:
    def text(gpu: Mapping[str, Any]) -> str:
        value, limit = gpu.get(key), gpu.get(whole) if whole else None
        if value is None:
            return ""
        return f"{value:.0f} {unit}" if limit is None else f"{value:.0f} of {limit:.0f} {unit}"

    return text


def _memory(gpu: Mapping[str, Any]) -> str:
    used, whole = gpu.get("memory_used_bytes"), gpu.get("memory_total_bytes")
    return " of ".join(output.size(count) for count in (used, whole) if count is not None)


def _held_by(gpu: Mapping[str, Any]) -> list[str]:
    found = gpu.get("processes") or ()
    return [f"{one.get('launch') or one.get('name') or '?'} (pid {one['pid']})" for one in found]


COLUMNS: tuple[Column, ...] = (
    ("GPU", "index"),
    ("NAME", "name"),
    ("BUSY", _of("utilization_percent", "%")),
    ("MEMORY", _memory),
    ("POWER", _of("power_w", "W", "power_limit_w")),
    ("HEAT", _of("temperature_c", "°C")),
    ("CLOCK", _of("sm_clock_mhz", "MHz")),
    ("HELD DOWN BY", "throttle"),
    ("PROCESSES", _held_by),
    ("WHY NOT READ", "reason"),
)
