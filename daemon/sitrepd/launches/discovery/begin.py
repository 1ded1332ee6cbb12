"""Where in a log that others have written before the lines of one start begin."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import BinaryIO

_FULL = re.compile(rb"(?:^|[\r\n])[^\r\n]{0,80}?(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)")
_SHORT = re.compile(rb"(?:^|[\r\n])[^\r\n]{0,40}?\b(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)")
_DOCKER = re.compile(rb'"time":"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)')
_BLOCK = 64 * 1024
_SLACK = timedelta(seconds=1)


def begin_of_start(path: str, started_at: datetime, tz: tzinfo | None = None, form: str | None = None) -> int:
    """The byte where the lines of a process that started then begin; `tz` is the zone of the log's times.

    Lines without a time belong to the line before them. Raises OSError.
    """
    zone = UTC if form else tz
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(fd, "rb", buffering=0) as file:
        info = os.fstat(fd)
        if info.st_mtime < started_at.timestamp() - _SLACK.total_seconds():
            return info.st_size
        return _search(file, info.st_size, started_at - _SLACK, zone, form)


def _search(file: BinaryIO, size: int, wanted: datetime, tz: tzinfo | None, form: str | None) -> int:
    """Bisects by the times, which only grow; reads about 20 blocks of a log of any size."""
    first = _next_stamp(file, 0, size, wanted, tz, form)
    if first is None or first[1] >= wanted:
        return 0
    low, high = first[0], size  # the line at `low` is too early; what begins at `high` is late enough
    while high - low > 1:
        middle = (low + high) // 2
        found = _next_stamp(file, middle, high, wanted, tz, form)
        if found is None or found[1] >= wanted:
            high = middle
        else:
            low = max(middle, found[0])
    late = _next_stamp(file, high, size, wanted, tz, form)
    return late[0] if late else _line_after(file, low, size)


def _next_stamp(
    file: BinaryIO, start: int, end: int, near: datetime, tz: tzinfo | None, form: str | None
) -> tuple[int, datetime] | None:
    """The first line with a time that begins at `start` or later and before `end`, and that time."""
    at = start
    while at < end:
        # One byte before, to see whether a line begins at `start`; a line over the edge of a block is read whole.
        file.seek(max(0, at - 1))
        block = file.read(_BLOCK)
        if not block:
            return None
        base = max(0, at - 1)
        for pattern in (_DOCKER,) if form == "docker" else (_FULL, _SHORT):
            found = pattern.search(block, _after_break(block) if at else 0)
            if found is None:
                continue
            line = base + _line_start(block, found.start(1))
            stamp = _read(found.groups(), near, tz)
            if stamp is not None:
                return (line, stamp) if line < end else None
        at = base + max(1, len(block) - 200) if len(block) > 200 else base + len(block)
        if len(block) < _BLOCK:
            return None
    return None


def _after_break(block: bytes) -> int:
    """Where the first line break is: what stands before it is the rest of an earlier line."""
    places = [place for place in (block.find(b"\n"), block.find(b"\r")) if place >= 0]
    return min(places, default=len(block))


def _line_start(block: bytes, place: int) -> int:
    return max(block.rfind(b"\n", 0, place), block.rfind(b"\r", 0, place)) + 1


def _line_after(file: BinaryIO, start: int, size: int) -> int:
    file.seek(start)
    block = file.read(_BLOCK)
    place = block.find(b"\n")
    return start + place + 1 if place >= 0 else size


def _read(fields: tuple[bytes, ...], near: datetime, tz: tzinfo | None) -> datetime | None:
    """A time without a year is in that of the start (or in the year before)."""
    numbers = [int(field) for field in fields]
    try:
        if len(numbers) == 6:
            return _aware(datetime(*numbers), tz)  # type: ignore[arg-type]  # noqa: DTZ001
        told = _aware(datetime(near.year, *numbers), tz)  # type: ignore[arg-type]  # noqa: DTZ001
        return told.replace(year=near.year - 1) if told - near > timedelta(days=180) else told
    except ValueError:
        return None


def _aware(local: datetime, tz: tzinfo | None) -> datetime:
    """In the machine's own zone where none is known."""
    return (local.replace(tzinfo=tz) if tz else local.astimezone()).astimezone(UTC)
