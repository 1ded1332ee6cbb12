"""What people read: aligned tables, times in their own zone, sizes; with colour in a terminal, without in a pipe."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

import typer

from sitrepd.figures import short_text

_CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"
    r"|[\x00-\x08\x0b-\x1f\x7f\x80-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]"
)
_TIMES = re.compile(r"_at$|^at$")
_GIB = 1 << 30
_MIB = 1 << 20

# A column's title and the field that it shows, or what computes it from the fact.
Column: TypeAlias = tuple[str, "str | Callable[[Mapping[str, Any]], Any]"]


def in_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def say(text: str = "") -> None:
    """A line for people, on standard output."""
    print(printable(text))


def warn(text: str) -> None:
    """A line that is no part of the answer."""
    print(printable(text), file=sys.stderr, flush=True)


def write_bytes(body: bytes) -> None:
    """An answer as it came, ended with a line feed."""
    sys.stdout.flush()
    sys.stdout.buffer.write(body if body.endswith(b"\n") or not body else body + b"\n")
    sys.stdout.buffer.flush()


def write_file(body: bytes, out: str | None) -> None:
    """To standard output where no file is named; else its path is said."""
    if out is None or out == "-":
        write_bytes(body)
        return
    try:
        Path(out).write_bytes(body)
    except OSError as error:
        raise typer.BadParameter(f"{out} cannot be written: {error.strerror}.") from error
    say(os.path.abspath(out))


def printable(text: str) -> str:
    """Told text without what would move the cursor, change the terminal, or turn the order of what is read."""
    return _CONTROL.sub("", text)


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column], nothing: str = "Nothing yet.") -> None:
    """Rows under their titles; columns that are empty in all rows are left out.

    In a terminal that is too narrow, the widest columns stand below their row, each on a line of its own that can be
    copied whole.
    """
    if not rows:
        say(nothing)
        return
    cells = {title: [_of(row, field) for row in rows] for title, field in columns}
    shown = {title: column for title, column in cells.items() if any(column)}
    below = _too_wide(shown, shutil.get_terminal_size().columns) if in_terminal() else []
    titles = [title for title in shown if title not in below]
    head, *lines = aligned([titles, *zip(*(shown[title] for title in titles), strict=True)])
    print(typer.style(head, bold=True) if in_terminal() else head)
    for at, line in enumerate(lines):
        print(line)
        for title in below:
            if shown[title][at]:
                print(f"    {title.lower()}: {shown[title][at]}")


def _too_wide(columns: Mapping[str, Sequence[str]], room: int) -> list[str]:
    """Titles of the widest columns, without which the others fit in the room."""
    widths = {title: max(len(title), *map(len, column)) for title, column in columns.items()}
    found: list[str] = []
    while len(widths) > 1 and sum(widths.values()) + 2 * (len(widths) - 1) > room:
        widest = max(list(widths)[1:], key=lambda title: widths[title])
        found.append(widest)
        del widths[widest]
    return [title for title in columns if title in found]


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Cells padded to the width of their column, two spaces apart, nothing cut."""
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]


def _of(row: Mapping[str, Any], field: str | Callable[[Mapping[str, Any]], Any]) -> str:
    if callable(field):
        return cell(field(row))
    value = row.get(field)
    return local_time(value) if isinstance(value, str) and _TIMES.search(field) else cell(value)


def cell(value: Any) -> str:
    """Any value on one line."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{name}={cell(item)}" for name, item in value.items())
    if isinstance(value, list):
        return ", ".join(cell(item) for item in value)
    return printable(str(value)).replace("\n", " ⏎ ")


def local_time(text: str | None) -> str:
    """An instant in the zone of the reader, with its offset: 2026-03-01 14:05:09+01:00."""
    if not text:
        return ""
    try:
        return datetime.fromisoformat(text).astimezone().isoformat(sep=" ", timespec="seconds")
    except ValueError:
        return printable(text)


def size(count: int | None) -> str:
    """Bytes for people: 509.4 GiB."""
    if count is None:
        return ""
    if count >= _GIB:
        return f"{count / _GIB:.1f} GiB"
    return f"{count / _MIB:.1f} MiB" if count >= _MIB else f"{count} bytes"


def duration(seconds: float) -> str:
    """Seconds for people: 8.2 s, 3 min 05 s, 2 h 04 min."""
    if seconds < 60:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s" if rest else f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def measures(metrics: Mapping[str, Any] | None) -> str:
    """Metrics on one line: output_throughput 94.0 tok/s."""
    return ", ".join(f"{name} {measure(value, short_text)}" for name, value in (metrics or {}).items())


def measure(told: Mapping[str, Any] | Decimal | int | None, number: Callable[[Any], str] = str) -> str:
    if told is None:
        return ""
    value, unit = (told.get("value"), told.get("unit")) if isinstance(told, Mapping) else (told, None)
    return f"{number(value)} {unit}" if unit else number(value)


def setting(value: Any) -> str:
    """The value of a setting on one line, as it would be typed."""
    if isinstance(value, str | Decimal):
        return str(value)
    return json.dumps(value, ensure_ascii=False, default=float)


def fact(told: Mapping[str, Any], depth: int = 0) -> None:
    """Every field of a fact that says something, one a line; text and commands stand unwrapped."""
    indent = "  " * depth
    for name, value in told.items():
        if value in (None, "", [], {}):
            continue
        if isinstance(value, dict):
            _nested(name, value, depth)
        elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
            print(f"{indent}{name}:")
            for item in value:
                say(f"{indent}  {_item(item)}")
        elif isinstance(value, str) and "\n" in value:
            print(f"{indent}{name}:")
            for line in value.splitlines():
                say(f"{indent}  {line}")
        else:
            say(f"{indent}{name}: {_scalar(name, value)}")


def _nested(name: str, value: dict[str, Any], depth: int) -> None:
    indent = "  " * depth
    if name == "metrics":
        print(f"{indent}{name}:")
        for metric, told in value.items():
            say(f"{indent}  {metric}: {measure(told)}")
        return
    print(f"{indent}{name}:")
    fact(value, depth + 1)


def _item(item: Any) -> str:
    if not isinstance(item, dict):
        return cell(item)
    return ", ".join(
        f"{name} {_scalar(name, value)}" for name, value in item.items() if value not in (None, "", [], {})
    )


def _scalar(name: str, value: Any) -> str:
    if name == "argv" and isinstance(value, list):
        import shlex

        return shlex.join(value)
    if name == "metrics" and isinstance(value, dict):
        return measures(value)
    if isinstance(value, str) and _TIMES.search(name):
        return local_time(value)
    if isinstance(value, int) and not isinstance(value, bool) and name.endswith("_bytes"):
        return f"{value} ({size(value)})"
    return cell(value)


def as_json(told: Any) -> None:
    """One JSON document that is ours, not the daemon's."""
    print(json.dumps(told, indent=2, ensure_ascii=False, default=str))
