"""How the dashboard says times and sizes."""

from __future__ import annotations

from datetime import UTC, datetime

from sitrepd.checkpoints.words import duration

_GIB = 1 << 30
_UNITS = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"))
_COUNTS = ((10**12, "T"), (10**9, "B"), (10**6, "M"))


def seconds_text(seconds: float) -> str:
    """A measured time: with a decimal where that says something."""
    if seconds < 0.05:
        return "< 0.1 s"
    return f"{seconds:.1f} s" if seconds < 10 else duration(seconds)


def ago(moment: datetime, now: datetime) -> str:
    """An age in its largest unit; the page counts on with the same words."""
    age = (now - moment).total_seconds()
    if age < 5:
        return "just now"
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if age >= size:
            return f"{int(age // size)} {name} ago"
    return f"{int(age)} s ago"


def moment_text(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def left(low_s: float | None, middle_s: float | None, high_s: float | None, of: str | None) -> str:
    """The time that is left, with its range; "" where nobody knows."""
    if middle_s is None:
        return ""
    what = " of this phase" if of == "phase" else ""
    if middle_s < 1:
        return "this phase is about to end" if of == "phase" else "about to be ready"
    text = f"about {rough(middle_s)} left{what}"
    if low_s is None or high_s is None or rough(low_s) == rough(high_s):
        return text
    return f"{text} ({_range(low_s, high_s)})"


def rough(seconds: float) -> str:
    """An estimate, no finer than it can be: to 5 s, to half a minute, to minutes."""
    if seconds < 55:
        return f"{max(round(seconds / 5) * 5, 5)} s"
    if seconds < 3570:
        return f"{round(seconds / 30) / 2:g} min" if seconds < 285 else f"{round(seconds / 60)} min"
    return f"{round(seconds / 360) / 10:g} h"


def _range(low_s: float, high_s: float) -> str:
    low, high = rough(low_s), rough(high_s)
    unit = high.split()[1]
    return f"{low.removesuffix(f' {unit}') if low.endswith(f' {unit}') else low} to {high}"


def gib(size: float) -> str:
    return f"{size / _GIB:.1f}"


def size(number: float) -> str:
    """Bytes in decimal units, as models are sold: 547 GB."""
    for unit, name in _UNITS:
        if number >= unit:
            return f"{number / unit:.1f}".removesuffix(".0") + f" {name}"
    return f"{number:g} bytes"


def count(number: float) -> str:
    """1000000000000 is 1 T, 7600000000 is 7.6 B."""
    for unit, name in _COUNTS:
        if number >= unit:
            return f"{number / unit:.1f}".removesuffix(".0") + f" {name}"
    return f"{number:g}"


__all__ = ("ago", "count", "duration", "gib", "left", "moment_text", "rough", "seconds_text", "size")
