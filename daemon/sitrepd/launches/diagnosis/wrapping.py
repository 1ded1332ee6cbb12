"""What a program that nobody knows writes in front of each line of an engine: learned from the lines themselves."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, islice

from sitrepd.launches.diagnosis.excerpts import restored
from sitrepd.launches.diagnosis.prefixes import split
from sitrepd.launches.diagnosis.source import Physical
from sitrepd.launches.engines._lines import plain

_MARK = re.compile(
    r"\[20\d\d-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?(?: [A-Z_]+\d+)*\] "
    r"|\((?:APIServer|EngineCore|Worker|VllmWorker)\w*[ )]|(?:INFO|WARNING|ERROR) \d\d-\d\d \d\d:\d\d:\d\d \["
    r"|Traceback \(most recent call last\):|  File \"[^\"]+\", line \d"
)
_CELL = re.compile(r"[ \t\xa0]*\| ?\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]? \| ?")
"""A table of lines, as consoles of clouds show it and are copied from."""
_DOUBLED = re.compile(
    r"(?:\[20\d\d-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?Z?\] )(?=  File \"|\[20\d\d-\d\d-\d\d \d\d:\d\d:\d\d)"
)
"""A stamp of the engine's own form, from a supervisor that puts it in front of every line."""
_STAMP = re.compile(r"\[20\d\d-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?Z?\] ")
_BRACKETS = re.compile(
    r"(?:\[[\w.-]{1,120}\] ?)?(?P<stamp>\[20\d\d-\d\d-\d\d \d\d:\d\d:\d\d)(?:[.,]\d+)?\] ?"
    r"(?:\[[\w./-]{1,120}(?::\d+)?\] ?)?\[(?:DEBUG|INFO|WARNING|(?P<error>ERROR|CRITICAL))\]: "
)
"""A formatter of a service around the engine: name, time, place and level, each in brackets."""
_LOOKED_AT = 600
_LONGEST = 200
_LEAST = 2


def unwrapped(lines: Iterable[Physical]) -> Iterator[Physical]:
    """The same lines, without what stands in front of most of those that an engine has stamped."""
    ahead = iter(lines)
    first = [_of_table(line) for line in islice(ahead, _LOOKED_AT)]
    wrapper = wrapper_of([line.text for line in first])
    first = [_bare(line, wrapper) for line in first]
    yield from restored(chain(first, (_bare(_of_table(line), wrapper) for line in ahead)), first)


def _of_table(line: Physical) -> Physical:
    """Without the cell or the brackets in front; a time in these stays, as the engine would have stamped the line."""
    begin = line.text[:1]
    if begin == "[":
        told = _BRACKETS.match(line.text)
        if told is None:
            return line
        rest = line.text[told.end() :]
        level = "[ERROR] " if told["error"] else ""
        return line._replace(text=f"{told['stamp']}] {level}{rest}")
    found = _CELL.match(line.text) if begin in (" ", "\t", "\xa0", "|") else None
    return line._replace(text=line.text[found.end() :]) if found else line


def _bare(line: Physical, wrapper: re.Pattern[str] | None) -> Physical:
    found = wrapper.match(line.text) if wrapper else None
    return line._replace(text=line.text[found.end() :]) if found else line


def wrapper_of(texts: Iterable[str]) -> re.Pattern[str] | None:
    """None where the engine's stamps stand at the beginning of lines, or behind what is known anyway."""
    texts = list(texts)
    if sum(_DOUBLED.match(text) is not None for text in texts) >= _LEAST:
        return _STAMP
    shapes: Counter[str] = Counter()
    for text in texts:
        found = _MARK.search(text, 0, _LONGEST)
        if found:
            shapes["" if _is_known(text, found) else _shape(text[: found.start()])] += 1
    ((shape, count),) = shapes.most_common(1) or [("", 0)]
    if not shape or count < _LEAST or 2 * count <= shapes.total() or not plain(shape):
        return None
    return re.compile(shape)


def _is_known(text: str, mark: re.Match[str]) -> bool:
    if mark.start() == 0:
        return True
    line = split(text)
    return line.stamped or line.text.lstrip().startswith(mark[0].lstrip())


def _shape(prefix: str) -> str:
    """Numbers may differ from line to line."""
    return re.sub(r"\d+", r"\\d+", re.escape(prefix))
