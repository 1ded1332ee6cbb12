"""Fits a checkpoint into a number of characters: whole items by weight, pinned ones in a shorter form if need be."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from sitrepd.checkpoints import left_out
from sitrepd.errors import InvalidFact

LEAST = 1000
CHARACTERS_A_TOKEN = 4
PRESETS: dict[str, int | None] = {"brief": 2000, "standard": 9000, "full": None}
CORE = 7
"""Pinned items up to this priority stay whole before any other is placed."""
# Of what is not pinned, so many of each section and priority are taken before more of any.
_ROUNDS = (3, 10)
_WORTH_A_SECOND_TRY = 200  # characters that a first try left unused
_BUDGET = re.compile(r"(\d{1,12})(t?)", re.IGNORECASE)

Rank = tuple[bool, int, int, int]


def parse_budget(text: str) -> int | None:
    """Characters, or None for all there is; tokens count four characters each. InvalidFact says what can be given."""
    told = text.strip().lower()
    if told in PRESETS:
        return PRESETS[told]
    match = _BUDGET.fullmatch(told)
    if match is None:
        raise InvalidFact(
            f"budget={text!r} is none: give characters (9000), tokens (2000t), brief (2000), standard (9000) or full."
        )
    characters = int(match[1]) * (CHARACTERS_A_TOKEN if match[2] else 1)
    if characters < LEAST:
        raise InvalidFact(f"budget={text!r} is too small: at least {LEAST} characters, or {LEAST // 4}t.")
    return characters


def _none() -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Piece:
    """One item as text: `rank` says when it is taken, `place` where it stands, `name` what it is called if left out.

    `shorter` gives its shorter forms, the shortest last; it is asked only where there is not enough room. What is
    `exact` (a command) is of no use in them, and grows before others do.
    """

    text: str
    name: str
    rank: Rank
    place: float
    shorter: Callable[[], Sequence[str]] = field(default=_none, compare=False)
    exact: bool = False

    def form(self, level: int) -> str:
        return self.text if level == 0 else self.shorter()[level - 1]


@dataclass(frozen=True, slots=True)
class Part:
    """One section as text: its head, its items, and the call that lists them; `earlier` counts what it never held."""

    name: str
    title: str
    head: str
    pieces: tuple[Piece, ...]
    more: str | None = None
    earlier: int = 0
    order: int = 0


# For each part: which pieces are shown, by number, and in which form (0 is whole).
Kept = list[dict[int, int]]


def piece(
    section: Mapping[str, Any], number: int, text: str, shorter: Callable[[], Sequence[str]] | None = None
) -> Piece:
    """The section's item with that number as text; an item may say its own weight (`pinned`, `priority`) and place."""
    item = section["items"][number]
    name = item.get("what") or ", ".join(item.get("ids", ())) or str(item.get("kind", "item"))
    weight = rank(section, number, item)
    if shorter is None or weight[0]:
        return Piece(text, name, weight, item.get("order", number))
    exact = item.get("kind") == "command"
    return Piece(text, name, weight, item.get("order", number), _falling(text, shorter), exact)


def _falling(text: str, shorter: Callable[[], Sequence[str]]) -> Callable[[], Sequence[str]]:
    """The forms that are each shorter than the one before, made once."""

    @cache
    def forms() -> Sequence[str]:
        found: list[str] = []
        for form in shorter():
            if form and len(form) < len(found[-1] if found else text):
                found.append(form)
        return tuple(found)

    return forms


def rank(section: Mapping[str, Any], number: int, item: Mapping[str, Any]) -> Rank:
    """When an item is taken: what is pinned first, then by priority, then by its place in the text."""
    pinned = item.get("pinned", section["pinned"])
    return (not pinned, item.get("priority", section["priority"]), section["order"], number)


def part(section: Mapping[str, Any], head: str, pieces: Sequence[Piece]) -> Part:
    earlier = section["data"].get("earlier") or 0
    return Part(section["name"], section["title"], head, tuple(pieces), section["more"], earlier, section["order"])


def everything(parts: Sequence[Part]) -> Kept:
    return [dict.fromkeys(range(len(part.pieces)), 0) for part in parts]


def fit(parts: Sequence[Part], budget: int | None, compose: Callable[[Kept, int | None], str]) -> str:
    """The text that `compose` makes of the weightiest items for which it has at most `budget` characters.

    `compose` is given what is kept, and how long the word on what is left out may be. What it adds to the items is
    found out by composing: the room for them shrinks until the whole fits.
    """
    if budget is None:
        return compose(everything(parts), None)
    if sum(len(piece.text) for part in parts for piece in part.pieces) < budget:
        text = compose(everything(parts), None)
        if len(text) <= budget:
            return text
    room = budget - len(compose([{} for _ in parts], 0))
    reserve = max(LEAST // 6, budget // 8) - left_out.LEAST // 2
    text = _fitted(parts, budget, room, reserve, compose)
    unused = budget - len(text)
    if unused < _WORTH_A_SECOND_TRY or len(text) > budget:
        return text
    # The word on what is left out took less than was kept for it.
    fuller = _fitted(parts, budget, room, max(left_out.LEAST, reserve - unused), compose)
    return fuller if len(text) < len(fuller) <= budget else text


def _fitted(
    parts: Sequence[Part], budget: int, room: int, reserve: int, compose: Callable[[Kept, int | None], str]
) -> str:
    while True:
        kept = _Choice(parts, room).made(reserve)
        text = compose(kept, 0)
        over = len(text) - budget
        if over <= 0 or not any(kept):
            return _named(kept, budget, text, compose)
        room -= over


def _named(kept: Kept, budget: int, text: str, compose: Callable[[Kept, int | None], str]) -> str:
    """The text with as full a word on what is left out as the rest of the budget allows."""
    fuller = compose(kept, max(0, budget - len(text)) + left_out.LEAST // 2)
    return fuller if len(fuller) <= budget else text


class _Choice:
    """Which items are shown, and in which form, within a room; heads are paid for by the first item below them."""

    def __init__(self, parts: Sequence[Part], room: int) -> None:
        self._parts = parts
        self._room = room
        self._kept: Kept = [{} for _ in parts]
        self._order = sorted(
            (piece.rank, index, number) for index, part in enumerate(parts) for number, piece in enumerate(part.pieces)
        )

    def made(self, reserve: int) -> Kept:
        """First the core, then what else is pinned, then the rest, which leaves `reserve` for what is left out.

        Of the rest, first a few of each kind, so that none goes without because another is long.
        """
        some = reserve // 3 if reserve > left_out.LEAST else 0
        whole = self._shortened(lambda rank: not rank[0] and rank[1] <= CORE, some)
        self._room -= reserve if whole else reserve - some
        self._shortened(lambda rank: not rank[0] and rank[1] > CORE)
        rest = [(rank, index, number) for rank, index, number in self._order if rank[0]]
        for most in (*_ROUNDS, len(rest)):
            taken: Counter[tuple[int, int]] = Counter()
            for rank, index, number in rest:
                taken[index, rank[1]] += 1
                if taken[index, rank[1]] <= most and number not in self._kept[index]:
                    self._take(index, number, 0)
        return self._kept

    def _those(self, which: Callable[[Rank], bool]) -> list[tuple[int, int]]:
        return [(index, number) for rank, index, number in self._order if which(rank)]

    def _shortened(self, which: Callable[[Rank], bool], reserve: int = 0) -> bool:
        """All of them whole if they fit; else each in its shortest form, which then grows by weight.

        Then `reserve` is left for what is left out.
        """
        group = self._those(which)
        if self._cost(group) <= self._room:
            for index, number in group:
                self._take(index, number, 0)
            return True
        self._room -= reserve
        exact = [one for one in group if self._parts[one[0]].pieces[one[1]].exact]
        forms = {one: len(self._parts[one[0]].pieces[one[1]].shorter()) for one in group}
        for index, number in group:
            if forms[index, number] or (index, number) not in exact:
                self._take(index, number, forms[index, number])
        for index, number in exact:
            self._grow(index, number, 1)
        for steps in (1, 2):
            for index, number in group:
                self._grow(index, number, steps)
        for index, number in exact:
            if not forms[index, number]:
                self._take(index, number, 0)
        return False

    def _cost(self, group: Iterable[tuple[int, int]]) -> int:
        group = list(group)
        opened = {index for index, _ in group if not self._kept[index]}
        heads = sum(len(self._parts[index].head) + 2 for index in opened)
        return heads + sum(len(self._parts[index].pieces[number].text) + 1 for index, number in group)

    def _take(self, index: int, number: int, level: int) -> None:
        """An item that is too long is passed over; what comes after it may still fit."""
        part = self._parts[index]
        cost = len(part.pieces[number].form(level)) + 1 + (0 if self._kept[index] else len(part.head) + 2)
        if cost <= self._room:
            self._kept[index][number] = level
            self._room -= cost

    def _grow(self, index: int, number: int, steps: int) -> None:
        """To the form that is so many steps above its shortest one, where that is not passed already."""
        level = self._kept[index].get(number)
        piece = self._parts[index].pieces[number]
        if not level:
            return
        target = max(0, len(piece.shorter()) - steps)
        cost = len(piece.form(target)) - len(piece.form(level))
        if target < level and cost <= self._room:
            self._kept[index][number] = target
            self._room -= cost
