"""The parts of a log that tell what happened: its head, its tail, and what stands around the lines that matter."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from sitrepd.launches.diagnosis.source import Physical, opened

_HEAD, _TAIL, _AROUND = 150, 300, 40
_WIDTH = 2000


def excerpt(log: Path, begin: int, matter: Sequence[int]) -> str:
    """Numbered lines, and where some were left out how many; raises OSError. `matter` are line numbers."""
    kept: dict[int, str] = {}
    tail: deque[tuple[int, str]] = deque(maxlen=_TAIL)
    last = first = 0
    with opened(log, begin) as lines:
        for number, text in _settled(lines):
            first = first or number
            last = number
            if number < first + _HEAD or any(abs(number - one) <= _AROUND for one in matter):
                kept[number] = text
            tail.append((number, text))
    kept.update(tail)
    return "\n".join(_numbered(kept, last)) + "\n"


def _settled(lines: Iterable[Physical]) -> Iterator[tuple[int, str]]:
    """Of a bar that was drawn over and over on one line, what it showed last."""
    held: tuple[int, str] | None = None
    for number, text, _ in lines:
        if held is not None and held[0] != number:
            yield held
        if held is None or held[0] != number or text.strip():
            held = (number, text if len(text) <= _WIDTH else f"{text[:_WIDTH]}… ({len(text)} characters)")
    if held is not None:
        yield held


def _numbered(kept: dict[int, str], last: int) -> Iterator[str]:
    before = None
    for number in sorted(kept):
        if before is not None and number > before + 1:
            yield f"       … {number - before - 1} lines left out …"
        yield f"{number:>6}  {kept[number]}"
        before = number
    if before is not None and before < last:
        yield f"       … {last - before} lines left out …"
