"""What a client's own summary of its conversation lost of the pinned facts of the checkpoint made before it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sitrepd.agents.passages import NO, Passage, numbers, passages, stems, windows

_ANALYSIS = re.compile(r"<analysis>.*?</analysis>", re.DOTALL)
_PATH = re.compile(r"(?:~|\.{1,2})?(?:/[\w.+=@-]+){2,}")
_CLAUSE = re.compile(r"[;,()]\s+|[;()]|\s[–—:]\s|:\s")
_COUNTED = re.compile(r"(?<![\w.])(?:\d{1,2}|[a-z]+)[ -](?=(?:speculative |draft )?[a-z]{3,})", re.IGNORECASE)
_ENOUGH = 0.6
_HALF = 0.5
# Sentences or items that a fact may be spread over.
_TOGETHER = 3


def lost(sections: list[Mapping[str, Any]], summary: str) -> list[dict[str, str]]:
    """The pinned facts that the summary does not hold, in the order of the checkpoint."""
    return missing(_facts(sections), summary)


def missing(facts: Iterable[tuple[str, str, str]], summary: str) -> list[dict[str, str]]:
    """Of facts as (id, what it is, its words) those that the summary does not hold."""
    said = _Said(_ANALYSIS.sub("", summary))
    return [{"id": name, "what": what, "text": text} for name, what, text in facts if not said.holds(what, text)]


@dataclass(frozen=True)
class _Window:
    """Passages that stand together: their words and numbers, and those of what stands over them."""

    words: set[str]
    figures: set[Decimal]
    words_over: set[str]
    figures_over: set[Decimal]


class _Said:
    """A summary, by its passages; each is looked at once, however many facts are looked for."""

    def __init__(self, text: str) -> None:
        self._flat = _flat(text)
        self._passages = passages(text)
        self._windows: dict[int, list[_Window]] = {}

    def holds(self, what: str, text: str) -> bool:
        """Word for word; else its numbers, flags, paths and most of its other words, close together.

        Of a wish all words: another wording is not the wish. A best value counts only beside its own label.
        """
        if _flat(text) in self._flat:
            return True
        if any(path not in self._flat for path in _PATH.findall(_flat(text))):
            return False
        if what == "best configuration":
            return self._holds_best(text)
        plain = _PATH.sub(" ", text)
        wanted, figures = stems(plain), numbers(plain)
        enough, together = (1.0, 1) if what == "directive" else (_ENOUGH, _TOGETHER)
        return any(_covers(wanted, figures, window, enough) for window in self._of(together))

    def _of(self, most: int) -> list[_Window]:
        """Of up to so many passages."""
        if most not in self._windows:
            self._windows[most] = [
                _Window(stems(here), set(numbers(here)), stems(over), set(numbers(over)))
                for here, over in windows(self._passages, most)
            ]
        return self._windows[most]

    def _holds_best(self, text: str) -> bool:
        label, _, value = text.rpartition(" ")
        figure = next(iter(numbers(value)), None)
        for one in self._passages:
            parts = [one.text] if one.text.lstrip().startswith("|") else _CLAUSE.split(one.text)
            for place, part in enumerate(parts):
                if figure is not None and figure in numbers(part) and _is_beside(label, figure, parts, place, one):
                    return True
        return False


def _is_beside(label: str, figure: Decimal, parts: Sequence[str], place: int, one: Passage) -> bool:
    """Whether the label stands in the clause of a value, or next to it while no other label does."""
    here, around = parts[place], " ".join(parts[max(0, place - 2) : place + 3])
    near = here if set(_counted(here)) - {figure} else around
    wide = stems(f"{one.text} {one.over}")
    words = stems(label)
    return set(numbers(label)) <= {*numbers(near), *numbers(one.over)} and len(words & wide) >= _HALF * len(words)


def _counted(clause: str) -> list[Decimal]:
    """Small whole numbers before a word, such as those of `2 steps`: what a configuration is told by."""
    return [one for word in _COUNTED.findall(clause) for one in numbers(word)]


def _covers(wanted: set[str], figures: Sequence[Decimal], told: _Window, enough: float) -> bool:
    if (NO in wanted) > (NO in told.words) or not set(figures) <= told.figures | told.figures_over:
        return False
    held = wanted & (told.words | (told.words_over - {NO}))
    names = {word for word in wanted if any(letter.isdigit() for letter in word)}
    return names <= held and len(held) >= enough * len(wanted)


def _facts(sections: list[Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """(id, what it is, its words) of each pinned fact."""
    for section in sections:
        for item in section["items"]:
            name = str(next(iter(item.get("ids", ())), ""))
            if section["name"] == "goal" and item.get("kind") == "goal" and item.get("goal"):
                yield name, "goal", item["goal"]
            elif item.get("kind") == "directive" and item.get("active"):
                yield name, "directive", item["text"]
            elif section["name"] == "next_steps" and item.get("state") in ("todo", "doing"):
                yield name, "next step", item["text"]
            elif section["name"] in ("root_causes", "decisions") and item.get("status") in ("confirmed", "open"):
                yield name, str(item.get("label") or item.get("kind")), item["title"]
            elif section["name"] == "best" and item.get("kind") == "best":
                yield name, "best configuration", f"{item['label']} {item['value']}"


def _flat(text: str) -> str:
    """Without markup and line breaks, in small letters."""
    plain = re.sub(r"\\\n\s*", " ", text)
    return " ".join(re.sub(r"[*`\"“”]+|(?<=\s)_+|_+(?=\s)", "", plain.casefold().replace("’", "'")).split())
