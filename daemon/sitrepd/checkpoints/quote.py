"""Told text as data: without control characters, and in fences that it cannot break out of."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

# Colours and titles of terminals, control characters, and characters that turn or hide the text around them.
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
_BREAK = re.compile(r"\r\n?|[\x85\u2028\u2029]")
# The same characters as they stand in JSON.
_SUSPECT = re.compile(r"\\(?:[bfr]|u(?:00[01789]|202[89a-e]|206[6-9]|db40))|\x7f")
_STOP = re.compile(r"[,;)\]}](?=.)")
_TICKS = re.compile(r"`+")
_ID = re.compile(r"[A-Z][1-9]\d{0,17}(?: of [A-Z]\d+)?")
_SPACE = re.compile(r"\s+")
CUT = "[…]"


def clean_text(text: str) -> str:
    """The text with lines that end in one way and without what does not print; nothing else is changed."""
    if text.isprintable():
        return text
    return _CONTROL.sub("", _BREAK.sub("\n", _ANSI.sub("", text)))


def clean(value: Any) -> Any:
    """The same, for all strings in a JSON value."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {clean(name): clean(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean(item) for item in value]
    return value


def is_clean(text: str) -> bool:
    """Whether `clean` would change nothing of a value whose JSON (in ASCII) this is; False where it is not sure."""
    return _SUSPECT.search(text) is None


class Quoted(str):
    """Text that stands where it may have several lines."""

    __slots__ = ()


def one_line(text: Any) -> str:
    """The text on one line; only breaks become spaces. Lists and mappings are printed as JSON."""
    told = clean_text(json.dumps(text, ensure_ascii=False) if isinstance(text, dict | list) else str(text))
    return told if "\n" not in told else re.sub(r"\s*\n\s*", " ", told.strip())


def fence(text: Any, language: str = "text") -> Quoted:
    """A fenced block that is longer than any run of backticks in the text."""
    told = clean_text(str(text))
    ticks = "`" * max(3, 1 + max((len(run) for run in _TICKS.findall(told)), default=0))
    return Quoted(f"{ticks}{language}\n{told}\n{ticks}")


def told(text: Any, language: str = "text") -> Quoted:
    """Text word for word: after a space where it is one line, else in a block of its own."""
    plain = clean_text(str(text))
    return Quoted(f"\n{fence(plain, language)}\n" if "\n" in plain else f" {plain}")


def quoted(text: Any, most: int = 600) -> Quoted:
    """What a log or a program printed, in a span or block of code that it cannot break out of, and not all of it."""
    plain = excerpt(text, most).strip("\n")
    return Quoted(f"\n{fence(plain)}\n") if "\n" in plain else Quoted(f" {_span(plain)}")


def _span(text: str) -> str:
    ticks = "`" * (1 + max((len(run) for run in _TICKS.findall(text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") or not text else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def cited(text: Any, most: int = 300) -> str:
    """A piece of evidence on one line: an id as it is, other text as data in a span of code."""
    plain = one_line(text)
    return plain if _ID.fullmatch(plain) else _span(clip(plain, most))


def listed(values: Iterable[Any], between: str = ", ") -> str:
    """What is there of the values, each on one line."""
    return between.join(one_line(value) for value in values if value)


def row(cells: Iterable[Any]) -> str:
    """A table row; a list item where a cell holds what would break the table, since told text is never escaped."""
    texts = [one_line(cell) if cell else "" for cell in cells]
    if any("|" in text for text in texts):
        return "- " + "; ".join(text for text in texts if text)
    return f"| {' | '.join(texts)} |"


def excerpt(text: Any, most: int = 600) -> str:
    """The text, or its first and last lines where it is longer than `most` characters; a line is never cut."""
    plain = clean_text(str(text))
    if len(plain) <= most:
        return plain
    lines = [clip(line, most) for line in plain.split("\n")]
    if len(lines) == 1:
        return lines[0]
    head: list[str] = []
    tail: list[str] = []
    room = most
    while lines and room > 0:
        line = lines.pop(0 if len(head) <= len(tail) else -1)
        room -= len(line) + 1
        if room < 0 and (head or tail):
            break
        (head if len(head) <= len(tail) else tail).append(line)
    return "\n".join([*head, CUT, *reversed(tail)])


def clip(text: Any, most: int) -> str:
    """The text, or its beginning with a mark where it is longer than `most` characters.

    It ends at a line or a sentence, else between two words that are neither flags nor within backticks; where there is
    no such place, the mark alone is left.
    """
    plain = clean_text(str(text))
    if len(plain) <= most:
        return plain
    lines = plain[: most + 1].split("\n")[:-1]
    if lines and "".join(lines).strip():
        return "\n".join([*lines, CUT]).strip("\n")
    room = most - len(CUT) - 1
    places = [match.start() for match in _SPACE.finditer(plain, 0, room + 1) if _may_end(plain, match)]
    ends = [place for place in places if plain[place - 1] in ".;!?" and place >= most // 2]
    if not places:
        places = [match.end() for match in _STOP.finditer(plain, 0, room + 1) if match.end() <= room]
    if not places or plain.count("`", 0, places[-1]) % 2:
        return CUT
    return f"{plain[: (ends or places)[-1]].rstrip()} {CUT}"


def _may_end(text: str, space: re.Match[str]) -> bool:
    before, after = text[: space.start()], text[space.end() :].split(maxsplit=1)
    if before.count("`") % 2 or not before.strip():
        return False
    words = (before.rsplit(maxsplit=1)[-1], after[0] if after else "")
    return not any(word.startswith("-") or "=" in word for word in words)
