"""A log as numbered lines: all of a small one, and of a huge one the head, the tail, and what lies around trouble."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from sitrepd.launches.diagnosis.packed import unpacked

MAX_LINE_BYTES = 64 * 1024
_HEAD_BYTES = 4 << 20
_TAIL_BYTES = 3 << 20
_BLOCK_BYTES = 1 << 20
_OVERLAP_BYTES = 64
_BEFORE_BYTES = 4 << 10
_AFTER_BYTES = 32 << 10
_FIRST_PLACES = 150
_LAST_PLACES = 50
_TROUBLE = (
    b"hit an exception",
    b"Traceback (most recent call",
    b"eceived sigquit",
    b"crashed with exit code",
    b"Fatal Python error",
    b"atchdog timeout",
    b"Watchdog caught",
    b"Health check failed",
    b"ddress already in use",
    b"NCCL WARN",
    b"Xid (PCI",
    b"out of memory",
    b"fired up and ready",
    b"SIGTERM received",
    b"server_args=",
    b'" 400 Bad Request',
)


class Physical(NamedTuple):
    """A piece of the physical line `number` between carriage returns; `gap` when lines before it were left out."""

    number: int
    text: str
    gap: bool = False


def from_lines(lines: Iterable[str]) -> Iterator[Physical]:
    """Lines that somebody holds already, with or without their ends."""
    for number, line in enumerate(lines, 1):
        for piece in _pieces(line.rstrip("\r\n")[:MAX_LINE_BYTES]):
            yield Physical(number, piece)


@contextmanager
def opened(log: Path | str | BinaryIO, begin: int = 0) -> Iterator[Iterator[Physical]]:
    """The lines of a file from a byte on, or of a stream, packed or not; what is no plain file goes into one first.

    Raises OSError.
    """
    if isinstance(log, (str, Path)):
        with open(log, "rb") as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                with unpacked(file) as plain:
                    yield _all_of(plain, begin)
            else:
                with _spooled(file) as spool, unpacked(spool) as plain:
                    yield _all_of(plain)
        return
    with _spooled(log) as spool, unpacked(spool) as plain:
        yield _all_of(plain)


@contextmanager
def _spooled(stream: BinaryIO) -> Iterator[BinaryIO]:
    with tempfile.TemporaryFile() as spool:
        while block := stream.read(_BLOCK_BYTES):
            spool.write(block)
        spool.flush()
        yield spool


def _all_of(file: BinaryIO, start: int = 0) -> Iterator[Physical]:
    """What the file holds at this moment; it may grow or be truncated meanwhile, and then is read from its begin."""
    size = os.fstat(file.fileno()).st_size
    start = start if start < size else 0
    number, at = 1 + _count(file, 0, start), start
    if size - start <= _HEAD_BYTES + _TAIL_BYTES:
        yield from _lines(file, start, size, number)
        return
    for begin, end in _spans(file, start, size):
        number += _count(file, at, begin)
        lines = _lines(file, begin, end, number)
        for first in lines:
            yield first._replace(gap=begin > at)
            break
        yield from lines
        number += _count(file, begin, end)
        at = end


def _spans(file: BinaryIO, start: int, size: int) -> list[tuple[int, int]]:
    """Disjoint stretches of whole lines in order; one that lies inside an endless line is cut."""
    tail = size - _TAIL_BYTES
    head = start + _HEAD_BYTES
    spans = [(start, head), (tail, size)]
    spans += [(max(start, at - _BEFORE_BYTES), min(size, at + _AFTER_BYTES)) for at in _trouble(file, head, tail)]
    joined: list[tuple[int, int]] = []
    for begin, end in sorted((_line_begin(file, begin), _line_end(file, end, size)) for begin, end in spans):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return joined


def _trouble(file: BinaryIO, begin: int, end: int) -> list[int]:
    """Where the words of trouble stand: the first places and the last ones, no two of them close together."""
    found: list[int] = []
    for start in range(begin, end, _BLOCK_BYTES):
        block = os.pread(file.fileno(), min(_BLOCK_BYTES, end - start) + _OVERLAP_BYTES, start)
        hits = sorted({start + at for word in _TROUBLE for at in _places(block, word)})
        for hit in hits:
            if not found or hit - found[-1] >= _AFTER_BYTES // 2:
                found.append(hit)
        if len(found) > 4 * (_FIRST_PLACES + _LAST_PLACES):
            del found[_FIRST_PLACES:-_LAST_PLACES]
    return found if len(found) <= _FIRST_PLACES + _LAST_PLACES else [*found[:_FIRST_PLACES], *found[-_LAST_PLACES:]]


def _places(block: bytes, word: bytes) -> Iterator[int]:
    at = block.find(word)
    while at >= 0:
        yield at
        at = block.find(word, at + _AFTER_BYTES // 2)


def _line_begin(file: BinaryIO, at: int) -> int:
    if at <= 0:
        return 0
    start = max(0, at - MAX_LINE_BYTES)
    found = os.pread(file.fileno(), at - start, start).rfind(b"\n")
    return start + found + 1 if found >= 0 else at


def _line_end(file: BinaryIO, at: int, size: int) -> int:
    found = os.pread(file.fileno(), MAX_LINE_BYTES, at - 1).find(b"\n")
    return min(size, at + found) if found >= 0 else at


def _count(file: BinaryIO, begin: int, end: int) -> int:
    """Line feeds between two places."""
    return sum(
        os.pread(file.fileno(), min(_BLOCK_BYTES, end - at), at).count(b"\n") for at in range(begin, end, _BLOCK_BYTES)
    )


def _lines(file: BinaryIO, begin: int, end: int, number: int) -> Iterator[Physical]:
    """Physical lines end at a line feed; what lies between carriage returns inside one is told piece by piece."""
    rest, skipping = b"", False
    for at in range(begin, end, _BLOCK_BYTES):
        rest += os.pread(file.fileno(), min(_BLOCK_BYTES, end - at), at)
        *whole, rest = rest.split(b"\n")
        for line in whole:
            if not skipping:
                yield from _told(line, number)
            skipping = False
            number += 1
        if len(rest) > MAX_LINE_BYTES:
            if not skipping:
                yield from _told(rest, number)
            rest, skipping = b"", True
    if rest and not skipping:
        yield from _told(rest, number)


def _told(line: bytes, number: int) -> Iterator[Physical]:
    text = line[:MAX_LINE_BYTES].rstrip(b"\r").replace(b"\0", b"").decode("utf-8", "replace")
    for piece in _pieces(text):
        yield Physical(number, piece)


def _pieces(text: str) -> list[str]:
    return text.split("\r") if "\r" in text else [text]
