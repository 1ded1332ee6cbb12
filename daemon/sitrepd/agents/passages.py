"""A text as passages, and the words and numbers of each, so that what is written otherwise is still found the same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from sitrepd.agents import vocabulary

_MARKUP = re.compile(r"[*`\"“”]+|(?<=\s)_+|_+(?=\s)|[‘’']s\b")
_HEADING = re.compile(r"\s*(?:#{1,6}\s+(.*?)\s*#*|<([a-z_]+)>|\d{1,2}\.\s+([^.]{1,60}):|([A-Z][^.:|]{1,60}):)\s*")
_BULLET = re.compile(r"^\s*(?:[-*+•–]|\d{1,2}[.)])\s+")
_RULE = re.compile(r"\s*\|?[\s:|-]+\|?\s*")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9\"“(`*-])")
_NUMBER = re.compile(
    r"(?<![a-z0-9_.])(-(?=\d)(?<![\d\s]-)|−)?"
    r"(\d{1,3}(?:[,_'\u00a0\u2009\u202f ]\d{3})+(?!\d)|\d+)(\.\d+)?(k\b)?(?!\w*\d|\.\d)",
    re.IGNORECASE,
)
_NAME = re.compile(r"[a-z]+[a-z0-9]*(?:-?\d[\d.]*[a-z]*)|[^\W\d_]+(?:'[^\W\d_]+)?")
# Paths and names that end in a number.
_NAMED = re.compile(r"\S*/\S*\w|[^\W\d_]+-\d[\w.]*")
_DIGITS = {word: str(number) for number, word in enumerate(vocabulary.NUMBERS, 1)}
NO = "¬"
_ENDINGS = (
    "ations",
    "ation",
    "isation",
    "ization",
    "ments",
    "ment",
    "ings",
    "ing",
    "ised",
    "ized",
    "ie",
    "ied",
    "ed",
    "e",
    "ly",
)


@dataclass(frozen=True)
class Passage:
    """A sentence, an item of a list or a row, with the words that stand over it (headings, the head of a table)."""

    text: str
    over: str = ""


def passages(text: str) -> list[Passage]:
    """In their order; lines that a backslash or a narrow window broke are one again."""
    found: list[Passage] = []
    heading = head = ""
    for line in _lines(text):
        if (title := _HEADING.fullmatch(line)) is not None:
            heading, head = next(part for part in title.groups() if part is not None), ""
        elif "|" in line and line.strip().startswith("|"):
            if _RULE.fullmatch(line):
                continue
            found.append(Passage(line, f"{heading} {head}"))
            head = head or line
        else:
            head = ""
            found += [Passage(one, heading) for one in _SENTENCE.split(_BULLET.sub("", line, count=1)) if one.strip()]
    return found


def _lines(text: str) -> Iterator[str]:
    text = re.sub(r"(?m)^(\s*)\*\s", r"\1- ", re.sub(r"\\\n\s*", " ", text))
    text = _MARKUP.sub("", text)
    text = re.sub(r"</?[a-z_]+>", lambda found: f"\n{found[0]}\n" if not found[0].startswith("</") else "\n", text)
    line = ""
    for next_one in text.splitlines():
        goes_on = (
            line and next_one.strip() and not _BULLET.match(next_one) and not next_one.lstrip().startswith(("|", "#"))
        )
        if (
            goes_on
            and not line.lstrip().startswith("|")
            and not _HEADING.fullmatch(line)
            and not _HEADING.fullmatch(next_one)
        ):
            line = f"{line} {next_one.strip()}"
            continue
        if line:
            yield line
        line = next_one.rstrip() if next_one.strip() else ""
    if line:
        yield line


def numbers(text: str) -> list[Decimal]:
    """Those that stand alone, whatever their decimals and separators; not those in names (EAGLE-3, INT4) or paths."""
    spelled = re.sub(r"[a-z]+", lambda word: _DIGITS.get(word[0], word[0]), text.casefold())
    found = []
    for sign, whole, rest, thousands in _NUMBER.findall(_NAMED.sub(" ", spelled)):
        value = Decimal(re.sub(r"[^\d]", "", whole) + rest) * (1000 if thousands else 1)
        found.append((-value if sign else value).normalize())
    return found


def stems(text: str) -> set[str]:
    """The words that carry its meaning, without their endings; all that says no is one of them."""
    found = set()
    plain = text.casefold().replace("’", "'").replace("_", " ").replace("--", " ")
    for word in _NAME.findall(plain):
        if word in vocabulary.NO:
            found.add(NO)
        elif any(letter.isdigit() for letter in word):
            found.add(re.sub(r"[^a-z0-9.]", "", word).rstrip("."))
        elif word not in vocabulary.STOP and word not in _DIGITS and len(word) > 1:
            found.add(stem(word))
    return found


def stem(word: str) -> str:
    base = re.sub(r"'\w+$", "", word)
    if base.endswith("s") and not base.endswith("ss") and len(base) > 3:
        base = base[:-1]
    for ending in _ENDINGS:
        if base.endswith(ending) and len(base) - len(ending) >= 4 and not base.endswith("ss"):
            base = base[: -len(ending)]
            break
    if base.endswith(("mm", "pp", "tt", "nn", "gg")):
        base = base[:-1]
    same = next((to for one, to in vocabulary.SAME.items() if base == one or base == one.rstrip("e")), base)
    return same[:6]


def windows(found: Sequence[Passage], most: int) -> Iterator[tuple[str, str]]:
    """(what stands together, what stands over it): each passage, and up to so many after another."""
    for size in range(1, most + 1):
        for start in range(len(found) - size + 1):
            part = found[start : start + size]
            yield "; ".join(one.text for one in part), " ".join(dict.fromkeys(one.over for one in part))
