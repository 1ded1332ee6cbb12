"""GPUs in a terminal: a bar each for use and memory, and a row for each process."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sitrepd.cli import output
from sitrepd.cli.client import Unreachable
from sitrepd.cli.gpus import headline

_COLOURS = {
    "idle": "dim", "busy": "green", "throttling": "yellow", "leaking": "magenta", "broken": "bold red",
}  # fmt: skip
_EIGHTHS = " ▏▎▍▌▋▊▉"
_MOST_ROWS = 24
_GIB = 1 << 30
# What stands beside the two bars, with and without what power and memory are out of.
_FIGURES_TAKE, _FEWER_TAKE = 78, 63
_NARROW = 92
# Below these there are no bars, then no clocks, then use and memory alone.
_BARS, _CLOCKS, _HEAT = 72, 58, 48
# Titles, and what stands between the tables.
_LINES = 7


def once(told: Mapping[str, Any]) -> None:
    Console(highlight=False).print(board(told, Console().width))


def live(look: Callable[[], Mapping[str, Any]], every: float) -> None:
    """Until Ctrl-C; a daemon that restarts meanwhile is waited for, and the last look stays.

    On a screen of its own, where nothing is left of a wider one when the terminal is made smaller.
    """
    console = Console(highlight=False)
    told, note = look(), ""

    def drawn() -> RenderableType:
        taken = _LINES + len(told["gpus"]) + sum(bool(gpu.get("why")) for gpu in told["gpus"])
        return board(told, console.width, note, min(_MOST_ROWS, max(1, console.height - taken)))

    try:
        with Live(drawn(), console=console, auto_refresh=False, screen=not console.is_dumb_terminal) as shown:
            while True:
                time.sleep(every)
                try:
                    told, note = look(), ""
                except Unreachable:
                    note = "The daemon does not answer; this is what it said last."
                shown.update(drawn(), refresh=True)
    finally:
        if not console.is_dumb_terminal:
            console.print(board(told, console.width, note))


def board(told: Mapping[str, Any], width: int, note: str = "", most: int = _MOST_ROWS) -> RenderableType:
    """At most so many rows of processes."""
    parts: list[RenderableType] = [Text(_head(told), style="bold"), _gpus(told["gpus"], width)]
    reasons = [gpu for gpu in told["gpus"] if gpu.get("why")]
    parts += [
        _line(f"GPU {gpu['index']} {gpu['state']}: {gpu['why']}", _COLOURS.get(gpu["state"], "")) for gpu in reasons
    ]
    held = [(gpu["index"], one) for gpu in told["gpus"] for one in gpu.get("processes") or ()]
    if held:
        parts += [Text(), _processes(held, most)]
    parts += [_line(text, "red") for text in (told.get("reason"), note) if text]
    return Group(*parts)


def _line(text: str, style: str) -> Text:
    return Text(output.printable(text), style=style)


def _head(told: Mapping[str, Any]) -> str:
    names = [gpu.get("name") or "unknown GPU" for gpu in told["gpus"]]
    counted = ", ".join(f"{names.count(name)} × {output.printable(name)}" for name in dict.fromkeys(names))
    return ", ".join(part for part in (counted, headline(told)) if part)


def _gpus(gpus: Sequence[Mapping[str, Any]], width: int) -> Table:
    """As wide as the terminal; the bars take the room that the figures leave."""
    narrow = width < _NARROW
    room = max(4, min(30, (width - (_FEWER_TAKE if narrow else _FIGURES_TAKE)) // 2)) if width >= _BARS else 0
    shown = 7 if width >= _CLOCKS else 6 if width >= _HEAT else 4
    table = Table(box=None, padding=(0, 1), show_header=True, header_style="dim", pad_edge=False)
    for title, justify in (("GPU", "right"), ("state", "left"), ("use", "left"), ("memory", "left"), ("power", "right"),
                           ("heat", "right"), ("clock", "right"))[:shown]:  # fmt: skip
        table.add_column(title, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for gpu in gpus:
        table.add_row(*_row(gpu, room, narrow)[:shown])
    return table


def _row(gpu: Mapping[str, Any], room: int, narrow: bool) -> list[RenderableType]:
    state = str(gpu.get("state") or "")
    use, used, total = gpu.get("utilization_percent"), gpu.get("memory_used_bytes"), gpu.get("memory_total_bytes")
    memory = used / total if used is not None and total else None
    return [
        str(gpu["index"]),
        Text(state, style=_COLOURS.get(state, "")),
        _bar(None if use is None else use / 100, room, "" if use is None else f"{use:3.0f} %", "green"),
        _bar(memory, room, _gib(used, None if narrow else total), "blue"),
        _figure(gpu, "power_w", "W", None if narrow else "power_limit_w"),
        _figure(gpu, "temperature_c", "°C"),
        _figure(gpu, "sm_clock_mhz", "MHz"),
    ]


def _bar(share: float | None, room: int, text: str, colour: str) -> Text:
    """A bar of eighths of a character, and its figure behind it."""
    if share is None:
        return Text("–", style="dim")
    if not room:
        return Text(text, style=colour)
    share = min(max(share, 0.0), 1.0)
    eighths = round(share * room * 8)
    full, rest = divmod(eighths, 8)
    drawn = "█" * full + (_EIGHTHS[rest] if rest else "")
    return Text.assemble((drawn.ljust(room), f"{colour} on grey23"), " ", text)


def _gib(used: int | None, total: int | None) -> str:
    if used is None:
        return ""
    return f"{used / _GIB:5.1f}" + (f" of {total / _GIB:.0f} GiB" if total else " GiB")


def _figure(gpu: Mapping[str, Any], key: str, unit: str, whole: str | None = None) -> str:
    value, limit = gpu.get(key), gpu.get(whole) if whole else None
    if value is None:
        return "–"
    return f"{value:.0f} {unit}" if limit is None else f"{value:.0f} of {limit:.0f} {unit}"


def _processes(held: Sequence[tuple[int, Mapping[str, Any]]], most: int) -> Table:
    table = Table(box=None, padding=(0, 1), show_header=True, header_style="dim", pad_edge=False)
    for title, justify in (
        ("GPU", "right"),
        ("pid", "right"),
        ("launch", "left"),
        ("memory", "right"),
        ("name", "left"),
    ):
        table.add_column(title, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for index, one in held[:most]:
        memory, launch = output.size(one.get("used_bytes")), one.get("launch") or ""
        table.add_row(
            str(index), str(one["pid"]), Text(launch, style="cyan"), memory, output.printable(one.get("name") or "?")
        )
    if len(held) > most:
        table.add_row("", "", "", "", f"{len(held) - most} more")
    return table
