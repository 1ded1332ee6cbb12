"""`sitrep gpu`: the GPUs of the daemon's machine, now, or live."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from sitrepd.cli import output
from sitrepd.cli.output import Column
from sitrepd.cli.verbs import Cli, verb

app = typer.Typer()


@verb(app, "gpu")
def gpu(
    cli: Cli,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Go on showing them until Ctrl-C; with --json one object a line.")
    ] = False,
    every: Annotated[float, typer.Option("--every", min=0.2, metavar="S", help="Seconds between two looks.")] = 1.0,
) -> None:
    """What each GPU does, how it is in a word, and which launch holds it: bars in a terminal, a table in a pipe."""
    if not watch:
        cli.show(cli.client.get("/gpus"), _say)
        return
    try:
        _watch(cli, every)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def _watch(cli: Cli, every: float) -> None:
    if cli.json or not output.in_terminal():
        _follow(cli, every)
        return
    from sitrepd.cli.gpus_live import live

    live(lambda: cli.client.get("/gpus").data, every)


def _follow(cli: Cli, every: float) -> None:
    """A look whenever the GPUs were sampled anew."""
    shown: Any = ...
    while True:
        answer = cli.client.get("/gpus")
        if (at := (answer.data.get("at"), answer.data.get("reason"))) != shown:
            shown = at
            if cli.json:
                from sitrepd.cli.client import dump

                print(dump(answer.data).decode(), flush=True)
            else:
                _say(answer.data)
                print(flush=True)
        time.sleep(every)


def _say(told: dict[str, Any]) -> None:
    if told["gpus"] and output.in_terminal():
        from sitrepd.cli.gpus_live import once

        once(told)
        return
    output.table(told["gpus"], COLUMNS, told.get("reason") or "No NVIDIA GPU found.")
    if told["gpus"]:
        output.say(headline(told))
        if told.get("reason"):
            output.say(told["reason"])


def headline(told: Mapping[str, Any]) -> str:
    """at 2026-12-01 14:00:00+00:00, driver 580.95.05, CUDA 13.0"""
    said = {"at": output.local_time(told.get("at")), "driver": told.get("driver"), "CUDA": told.get("cuda_driver")}
    return ", ".join(f"{name} {value}" for name, value in said.items() if value)


def _of(key: str, unit: str, whole: str | None = None) -> Callable[[Mapping[str, Any]], str]:
    def text(gpu: Mapping[str, Any]) -> str:
        value, limit = gpu.get(key), gpu.get(whole) if whole else None
        if value is None:
            return ""
        return f"{value:.0f} {unit}" if limit is None else f"{value:.0f} of {limit:.0f} {unit}"

    return text


def _memory(gpu: Mapping[str, Any]) -> str:
    """The whole alone would look like what is used."""
    used, whole = gpu.get("memory_used_bytes"), gpu.get("memory_total_bytes")
    if used is None:
        return ""
    return " of ".join(output.size(count) for count in (used, whole) if count is not None)


def held_by(gpu: Mapping[str, Any]) -> list[str]:
    """L14 (pid 4321), python (pid 99)"""
    found = gpu.get("processes") or ()
    return [f"{one.get('launch') or one.get('name') or '?'} (pid {one['pid']})" for one in found]


def _faults(gpu: Mapping[str, Any]) -> list[str]:
    """What has gone wrong in its memory since the driver was loaded."""
    told = (("ecc_uncorrected", "uncorrected errors"), ("remapped_rows", "remapped rows"))
    return [f"{gpu[key]} {words}" for key, words in told if gpu.get(key)]


COLUMNS: tuple[Column, ...] = (
    ("GPU", "index"),
    ("STATE", "state"),
    ("NAME", "name"),
    ("BUSY", _of("utilization_percent", "%")),
    ("MEMORY", _memory),
    ("POWER", _of("power_w", "W", "power_limit_w")),
    ("HEAT", _of("temperature_c", "°C")),
    ("CLOCK", _of("sm_clock_mhz", "MHz")),
    ("WHY", "why"),
    ("FAULTS", _faults),
    ("PROCESSES", held_by),
)
