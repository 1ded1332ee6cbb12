"""Secrets of a shell command line, replaced so that the shell still expands what stands for them."""

from __future__ import annotations

import re
import shlex
from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from sitrepd.redaction.rules import Span, find_secrets, text_value

_QUOTES = re.compile(r"""\\.|'(?P<single>[^']*)(?:'|\Z)|"(?P<double>(?:[^"\\]|\\.)*)(?:"|\Z)""", re.DOTALL)
_WORD = re.compile(r"""(?:'[^']*'?|"(?:[^"\\]|\\.)*"?|\\.|\$\{[^}]*\}|[^\s;&|<>()'"\\])+""", re.DOTALL)
_SHELL_PLACE = re.compile(r"(?:=|[^\s=:,]\s)$")  # the value follows `NAME=` or `--name `
_EXPANDS = re.compile(r"[$`\"\\!]")


class _Quoted(NamedTuple):
    """The inside of a quotation, `command[start:end]`."""

    start: int
    end: int
    single: bool


def find_command_secrets(command: str) -> list[Span]:
    """The secrets of a shell command line; a value outside quotations is a whole shell word."""
    quotations = _quotations(command)

    def value_at(text: str, position: int) -> tuple[int, int, bool] | None:
        inside = _around(quotations, position)
        if inside or not _SHELL_PLACE.search(text, max(0, position - 2), position):
            value = text_value(text, position, inside.end if inside else len(text))
            return value and (value[0], value[1], True)
        word = _WORD.match(text, position)
        if word is None or word[0].startswith("$("):
            return None
        start, end = word.span()
        if word[0][0] in "'\"" and _QUOTES.fullmatch(word[0]):
            end -= word[0].endswith(word[0][0])
            start += 1
        return start, end, True

    return find_secrets(command, value_at)


def substitute_command(command: str, spans: Iterable[Span]) -> str:
    """The command with `${NAME}` for each span; single quotations become double ones around it, or are left for it."""
    quotations = _quotations(command)
    edits: list[tuple[int, int, str]] = []
    spans = list(spans)
    for span in spans:
        around = _around(quotations, span.start)
        reference = "${" + span.name + "}"
        if around and around.single and span.end <= around.end and not _requoted(command, spans, around):
            reference = f"'\"{reference}\"'"
        elif not around and re.search(r"['\"\\]", command[span.start : span.end]):
            reference = f'"{reference}"'
        edits.append((span.start, span.end, reference))
    for quoted in {around for span in spans if (around := _around(quotations, span.start)) and around.single}:
        if _requoted(command, spans, quoted):
            edits += [(quoted.start - 1, quoted.start, '"'), (quoted.end, quoted.end + 1, '"')]
    return replace(command, edits)


def unquoted_value(command: str, span: Span) -> str:
    """The value of the span as the program gets it: `a"b c"` is `ab c`."""
    value = command[span.start : span.end]
    if _around(_quotations(command), span.start):
        return value
    try:
        return "".join(shlex.split(value))
    except ValueError:  # a quotation that does not end
        return value


def replace(text: str, edits: Iterable[tuple[int, int, str]]) -> str:
    """The text with each `text[start:end]` of the edits, which do not overlap, replaced."""
    parts: list[str] = []
    position = 0
    for start, end, new in sorted(edits):
        parts += [text[position:start], new]
        position = end
    return "".join([*parts, text[position:]])


def _requoted(command: str, spans: list[Span], quoted: _Quoted) -> bool:
    """Whether the single quotation can be a double one: nothing but the references would be expanded."""
    kept = replace(command[: quoted.end], ((s.start, s.end, "") for s in spans if s.end <= quoted.end))
    removed = sum(s.end - s.start for s in spans if s.end <= quoted.start)
    return not _EXPANDS.search(kept, quoted.start - removed)


def _quotations(command: str) -> list[_Quoted]:
    matches = (match for match in _QUOTES.finditer(command) if match.lastgroup)
    return [_Quoted(*m.span(m.lastgroup or 0), m.lastgroup == "single") for m in matches]


def _around(quotations: list[_Quoted], position: int) -> _Quoted | None:
    index = bisect_right(quotations, position, key=lambda q: q.start) - 1
    return quotations[index] if index >= 0 and position < quotations[index].end else None
