"""What is common to log lines: time and rank in front, colours, progress bars."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

GIB = 1024**3

STAMP = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?)((?: [A-Z_]+\d+)*)\] ?")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_BAR = re.compile(
    r"(\d{1,3})%(?: Completed \||\|[^|\r\n]{0,80}\|) *(\d+(?:\.\d+)?)([kMGT]?)/(\d+(?:\.\d+)?)([kMGT]?)B? "
    r"\[(\d+):(\d\d)(?::(\d\d))?[^\]\r\n]{0,60}\]?"
)
_SCALE = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


@dataclass(frozen=True, slots=True)
class Bar:
    """One drawing of a tqdm bar, and the text that was glued to it on either side."""

    label: str
    done: int
    total: int
    elapsed_s: float
    rest: str


class Clock:
    """Log times to UTC; the last text is remembered because many lines share a second."""

    def __init__(self, tz: tzinfo | None) -> None:
        self._tz = tz
        self._text = ""
        self._at = datetime.fromtimestamp(0, UTC)

    def read(self, text: str, otherwise: datetime) -> datetime:
        """`otherwise` where the text is no possible time (month 13)."""
        if text != self._text:
            try:
                told = datetime.fromisoformat(text)
                at = (told if self._tz is None else told.replace(tzinfo=self._tz)).astimezone(UTC)
            except (ValueError, OverflowError):
                return otherwise
            self._text, self._at = text, at
        return self._at


def plain(line: str) -> str:
    """The line without colour codes."""
    return _ANSI.sub("", line) if "\x1b" in line else line


def find_bar(text: str) -> Bar | None:
    """The last bar anywhere in the text, since bars are glued to each other and to other writers' lines."""
    if "%" not in text or "/" not in text:
        return None
    last, before = None, 0
    for match in _BAR.finditer(text):
        before = last.end() if last else 0
        last = match
    if last is None:
        return None
    _, done, done_unit, total, total_unit, first, second, third = last.groups()
    clock = [int(first), int(second)] + ([int(third)] if third else [])
    elapsed = sum(value * 60**place for place, value in enumerate(reversed(clock)))
    label = text[before : last.start()].strip().removesuffix(":")
    return Bar(
        label[-200:],
        int(float(done) * _SCALE[done_unit]),
        int(float(total) * _SCALE[total_unit]),
        float(elapsed),
        text[last.end() :].strip(),
    )


def gib_to_bytes(text: str) -> int:
    """SGLang prints GiB and calls them GB; two decimals, so the result is right to 5 MiB."""
    return round(float(text) * GIB)
