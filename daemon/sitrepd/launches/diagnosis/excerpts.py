"""What people do to the lines of a log when they report it: quoted, indented, several of them run into one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from sitrepd.launches.diagnosis.prefixes import split
from sitrepd.launches.diagnosis.source import Physical

_QUOTE = re.compile(r"(?:> ?){1,3}")
_NUMBER = re.compile(r"\s{0,8}(\d{1,7})(?:: |\| |[:|\t ]|$)")
_HEADER = re.compile(
    r"( {1,40}|\t{1,6})(?:Traceback \(most recent call last\):|\[20\d\d-\d\d-\d\d \d\d:\d\d:\d\d|\(\w+ pid=)"
)
_MOSTLY = 0.9
_LEAST_JOINED = 100
_ACTOR = r"\([A-Za-z_]\w*(?: \w+)? pid=\d+(?:, ip=[\d.]+)?\)"
_STAMP = r"\[20\d\d-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?(?: [A-Z_]+\d+)*\] "
_RECORD = r"(?:INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? (?:\[[\w./]+:\d+\]|[\w./]+:\d+\])"
_FRAME = r'File "[^"\n]{1,300}", line \d+'
_LATER = re.compile(f"{_ACTOR}|{_STAMP}|{_RECORD}|{_FRAME}")
"""Of these a line has one, at its begin."""
_BREAKS = re.compile(
    rf"(?P<stamp>(?:{_ACTOR} ?)?{_RECORD}|{_ACTOR}|{_STAMP})|(?P<frame> *{_FRAME})|(?<=call last\):)(?=.)"
    r"|(?P<chain>The above exception was the direct cause|During handling of the above exception)"
    r"|(?P<error>(?<![\w.'\"])(?:[a-z_]\w*\.)*(?:[A-Z]\w*(?:Error|Exception)|OutOfResources): )"
    r"|(?P<glued>(?<=[)\]}'\"a-z\d])(?:[a-z_]\w*\.)*(?:[A-Z]\w*(?:Error|Exception)|OutOfResources): )"
)
_WRITTEN_BREAK = re.compile(r"\\r?\\n|\\n")


def restored(lines: Iterable[Physical], first: Sequence[Physical]) -> Iterator[Physical]:
    """The same lines as they were written; `first` are the first of them, which show what is common to all."""
    quoted, numbered = _is_quoted(first), _is_numbered(first)
    margin = "" if numbered else _margin(first, quoted)
    indent = ""
    for line in lines:
        text = line.text
        if quoted:
            text = _unquoted(text)
        if numbered and (number := _NUMBER.match(text)):
            text = text[number.end() :]
        if margin and text.startswith(margin):
            text = text[len(margin) :]
        if text[:1] in (" ", "\t"):
            found = _HEADER.match(text)
            indent = found[1] if found else indent
        if indent and text.strip():
            if text.startswith(indent):
                text = text[len(indent) :]
            else:
                indent = ""
        if len(text) >= _LEAST_JOINED and _is_joined(text):
            for place, piece in enumerate(_pieces(text)):
                yield line._replace(text=piece, gap=line.gap and not place)
        else:
            yield line if text is line.text else line._replace(text=text)


def _told(first: Sequence[Physical]) -> list[str]:
    return [line.text for line in first if line.text.strip()]


def _is_quoted(first: Sequence[Physical]) -> bool:
    told = _told(first)
    return len(told) > 1 and sum(text.lstrip()[:1] == ">" for text in told) >= _MOSTLY * len(told)


def _is_numbered(first: Sequence[Physical]) -> bool:
    """Whether a number that grows by one from line to line stands in front, as editors and grep show it."""
    told = [_NUMBER.match(line.text) for line in first]
    numbers = [int(found[1]) for found in told if found]
    steps = sum(after - before == 1 for before, after in pairwise(numbers))
    return len(numbers) > 2 and len(numbers) >= _MOSTLY * len(told) and steps >= _MOSTLY * (len(numbers) - 1)


def _unquoted(text: str) -> str:
    found = _QUOTE.match(text.lstrip())
    return text.lstrip()[found.end() :] if found else text


def _margin(first: Sequence[Physical], quoted: bool) -> str:
    """The white space that stands in front of every line."""
    texts = [_unquoted(text) if quoted else text for text in _told(first)]
    margin = texts[0][: len(texts[0]) - len(texts[0].lstrip(" \t"))] if texts else ""
    for text in texts:
        while margin and not text.startswith(margin):
            margin = margin[:-1]
        if not margin:
            break
    # A traceback that is cut to its frames has two columns of its own.
    return margin if len(margin) > 2 or "\t" in margin else ""


def _is_joined(text: str) -> bool:
    """Whether what begins a line stands in the midst of one."""
    if 'File "' not in text and " pid=" not in text and "Traceback (" not in text and text.count("[20") < 2:
        return "\\n" in text and 'File \\"' in text
    if "Traceback (most recent call last):" in text and not text.rstrip().endswith("call last):"):
        return True
    found = [one.start() for one in _LATER.finditer(text)]
    kinds = [text[at : at + 1] for at in found]
    return kinds.count("F") > 1 or kinds.count("(") > 1 or kinds.count("[") > 1 or (_stands_late(text, found, kinds))


def _stands_late(text: str, found: Sequence[int], kinds: Sequence[str]) -> bool:
    """A place in the code behind other code: the line before it has lost its break."""
    frame = next((at for at, kind in zip(found, kinds, strict=True) if kind == "F"), 0)
    if frame and not split(text[:frame].rstrip() + " ").text.strip():
        return False
    return frame > 0 and text[:frame].rstrip()[-1:] in (")", "(", ":", "]")


def _pieces(text: str) -> Iterator[str]:
    """The line cut where lines begin; what names code is indented as it was."""
    if "\\n" in text:
        text = text.replace('\\"', '"')
    for part in _WRITTEN_BREAK.split(text) if "\\n" in text else (text,):
        begin = 0
        for found in _BREAKS.finditer(part):
            if found.start() > begin and _is_begin(part, begin, found):
                yield _piece(part[begin : found.start()])
                begin = found.start()
        yield _piece(part[begin:])


def _is_begin(part: str, begin: int, found: re.Match[str]) -> bool:
    """Not between a prefix and what it stands in front of."""
    before = part[begin : found.start()]
    if found["stamp"] is None and re.fullmatch(rf"(?:{_ACTOR}|{_STAMP}|{_RECORD}| )+", before):
        return False
    return bool(before.strip())


def _piece(text: str) -> str:
    text = text.rstrip()
    stripped = text.lstrip()
    return f"  {stripped}" if stripped.startswith('File "') else stripped
