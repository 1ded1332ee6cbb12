"""Logs that were copied from a console which shows the newest line first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice, pairwise

from sitrepd.launches.diagnosis.source import Physical

_STAMP = re.compile(r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d")
_HEADER = "Traceback (most recent call last):"
_LOOKED_AT = 600
_LONGEST = 200
_MOST_LINES = 200_000
_LEAST = 2


class Chronological:
    """The lines oldest first, numbered as they are read; `written_at` tells where one stood in the file."""

    def __init__(self, lines: Iterable[Physical]) -> None:
        self._lines = lines
        self._numbers: list[int] = []

    def __iter__(self) -> Iterator[Physical]:
        ahead = iter(self._lines)
        first = list(islice(ahead, _LOOKED_AT))
        if not is_newest_first([line.text for line in first]):
            yield from chain(first, ahead)
            return
        rest = list(islice(ahead, _MOST_LINES))
        for number, line in enumerate(turned([*first, *rest]), 1):
            self._numbers.append(line.number)
            yield line._replace(number=number)

    def written_at(self, number: int) -> int:
        """The same number where nothing was turned around."""
        return self._numbers[number - 1] if 0 < number <= len(self._numbers) else number


def is_newest_first(texts: Iterable[str]) -> bool:
    """Whether times fall from line to line, but for the odd one of another process."""
    stamps = [found[0] for text in texts if (found := _STAMP.search(text, 0, _LONGEST))]
    times = [stamp.replace("T", " ") for stamp in stamps]
    falls = sum(after < before for before, after in pairwise(times))
    rises = sum(after > before for before, after in pairwise(times))
    return falls >= _LEAST and 10 * rises <= falls


def turned(lines: list[Physical]) -> list[Physical]:
    """Record by record where a traceback stands in its own order, else line by line."""
    texts = [line.text for line in lines]
    header = next((at for at, text in enumerate(texts) if _HEADER in text), None)
    upright = header is not None and 'File "' in "".join(texts[header + 1 : header + 2])
    if not upright:
        return lines[::-1]
    records: list[list[Physical]] = []
    for line in lines:
        if not records or _STAMP.search(line.text, 0, _LONGEST):
            records.append([])
        records[-1].append(line)
    return [line for record in reversed(records) for line in record]
