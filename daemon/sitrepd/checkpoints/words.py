"""How a checkpoint says numbers, sizes, times and counts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sitrepd.figures import short_text

_UNITS = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"))
_DISK = ("path", "filesystem", "total_bytes", "network")
_SCALES = ((10**12, "T"), (10**9, "B"), (10**6, "M"))


def size(number: int) -> str:
    """`547.0 GB (547000000000 bytes)`; the exact figure alone below a kB."""
    for unit, name in _UNITS:
        if number >= unit:
            return f"{number / unit:.1f} {name} ({number} bytes)"
    return f"{number} bytes"


def amount(number: int) -> str:
    """`1.0 T (1000000000000)`, as parameters are counted."""
    for unit, name in _SCALES:
        if number >= unit:
            return f"{number / unit:.1f} {name} ({number})"
    return str(number)


def duration(seconds: float) -> str:
    """The two largest units: `45 s`, `2 min 10 s`, `1 h 5 min`, `3 d 2 h`."""
    whole = max(round(seconds), 0)
    for large, name, small, small_name in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= large:
            first, rest = divmod(whole, large)
            return f"{first} {name} {rest // small} {small_name}" if rest // small else f"{first} {name}"
    return f"{whole} s"


def age(moment: str, at: str | None) -> str:
    """` (3 h 5 min before)`: how long before the checkpoint's time; "" below a minute or where that is not known."""
    try:
        seconds = (datetime.fromisoformat(at or "") - datetime.fromisoformat(moment)).total_seconds()
    except (ValueError, TypeError):
        return ""
    return f" ({duration(seconds)} before)" if seconds >= 60 else ""


def as_of(times: Mapping[str, str], checkpoint: Mapping[str, Any] | None = None) -> str:
    """`as of 2026-12-01T03:20:47Z (3 h before)` of values with their times: the latest of them, and the first."""
    first, last = min(times.values()), max(times.values())
    span = "" if first == last else f"{first} to "
    return f"as of {span}{last}{age(last, (checkpoint or {}).get('at'))}"


def time_left(live: Mapping[str, Any]) -> str:
    """The range of the time left, or that it is not known."""
    middle, low, high = (live.get(name) for name in ("remaining_s", "remaining_low_s", "remaining_high_s"))
    of = " of this phase" if live.get("remaining_of") == "phase" else ""
    if low is not None and high is not None and duration(low) != duration(high):
        return f"time left{of} {duration(low)} to {duration(high)}"
    if middle is None:
        return "time left not known"
    return f"time left{of} about {duration(middle)}"


def progress(live: Mapping[str, Any]) -> str:
    """`weights 12/64 shards (18.8 %)`; the phase alone where it has no bar."""
    done, total, share = live.get("done"), live.get("total"), live.get("progress")
    parts = [live.get("phase") or ""]
    if total:
        parts.append(f"{done or 0}/{total} {live.get('unit') or ''}".strip())
        share = (done or 0) / total if share is None else share
    if share is not None:
        parts.append(f"({share * 100:.1f} %)" if total else f"{share * 100:.1f} %")
    return " ".join(part for part in parts if part)


def metric(told: Mapping[str, Any]) -> str:
    """`mean_ttft_ms 420.6 ms`."""
    return f"{told['name']} {value(told)}"


def value(told: Mapping[str, Any]) -> str:
    """`94.0 tok/s`."""
    number = short_text(told["value"])
    return f"{number} {told['unit']}" if told.get("unit") else number


def disk(told: Any) -> str:
    """`/data ext4 7.0 TB (7000000000000 bytes)` of a disk as it is observed, or what was told instead."""
    if not isinstance(told, Mapping):
        return str(told)
    total = told.get("total_bytes")
    known = [told.get("path"), told.get("filesystem"), size(total) if isinstance(total, int) else None]
    rest = [f"{name} {value}" for name, value in told.items() if name not in _DISK and value not in (None, False)]
    return " ".join(str(part) for part in (*known, "over the network" if told.get("network") else None, *rest) if part)


def ref(told: Mapping[str, Any] | str) -> str:
    """`H1 box` of a fact that is named by id, or the text that stands in its place."""
    if isinstance(told, str):
        return told
    return " ".join(str(part) for part in (told["id"], told.get("name")) if part)
