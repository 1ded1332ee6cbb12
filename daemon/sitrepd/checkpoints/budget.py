"""Fits a checkpoint into a number of characters: whole items by priority, and a word on each that is left out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sitrepd.errors import InvalidFact

LEAST = 1000
CHARACTERS_A_TOKEN = 4
PRESETS: dict[str, int | None] = {"brief": 2000, "standard": 9000, "full": None}
_BUDGET = re.compile(r"(\d{1,12})(t?)", re.IGNORECASE)
_NAMED = 12


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


@dataclass(frozen=True, slots=True)
class Piece:
    """One item as text: `rank` says when it is taken, `place` where it stands, `name` what it is called if left out."""

    text: str
    name: str
    rank: tuple[bool, int, int, int]
    place: float


@dataclass(frozen=True, slots=True)
class Part:
    """One section as text: its head, its items, and the call that lists them; `earlier` counts what it never held."""

    name: str
    title: str
    head: str
    pieces: tuple[Piece, ...]
    more: str | None = None
    earlier: int = 0


Kept = list[set[int]]


def piece(section: Mapping[str, Any], number: int, text: str) -> Piece:
    """The section's item with that number as text; an item may say its own weight (`pinned`, `priority`) and place."""
    item = section["items"][number]
    name = item.get("what") or ", ".join(item.get("ids", ())) or str(item.get("kind", "item"))
    return Piece(text, name, rank(section, number, item), item.get("order", number))


def rank(section: Mapping[str, Any], number: int, item: Mapping[str, Any]) -> tuple[bool, int, int, int]:
    """When an item is taken: what is pinned first, then by priority, then by its place in the text."""
    pinned = item.get("pinned", section["pinned"])
    return (not pinned, item.get("priority", section["priority"]), section["order"], number)


def part(section: Mapping[str, Any], head: str, pieces: Sequence[Piece]) -> Part:
    earlier = section["data"].get("earlier") or 0
    return Part(section["name"], section["title"], head, tuple(pieces), section["more"], earlier)


def everything(parts: Sequence[Part]) -> Kept:
    return [set(range(len(part.pieces))) for part in parts]


def fit(parts: Sequence[Part], budget: int | None, compose: Callable[[Kept], str]) -> str:
    """The text that `compose` makes of the weightiest items for which it has at most `budget` characters.

    What `compose` adds to the items is found out by composing: the room for them shrinks until the whole fits.
    """
    if budget is None:
        return compose(everything(parts))
    order = sorted(
        (piece.rank, index, number) for index, part in enumerate(parts) for number, piece in enumerate(part.pieces)
    )
    room = budget
    while True:
        kept = _choose(parts, order, room)
        text = compose(kept)
        over = len(text) - budget
        if over <= 0 or not any(kept):
            return text
        room -= over


def _choose(parts: Sequence[Part], order: Sequence[tuple[object, int, int]], room: int) -> Kept:
    """An item that is too long is passed over; what comes after it may still fit."""
    kept: Kept = [set() for _ in parts]
    for _, index, number in order:
        cost = len(parts[index].pieces[number].text) + 1
        if not kept[index]:
            cost += len(parts[index].head) + 2
        if cost <= room:
            kept[index].add(number)
            room -= cost
    return kept


def left_out(parts: Sequence[Part], kept: Kept, budget: int | None) -> str:
    """What is not shown and how it is had, as fully as about an eighth of the budget allows; "" if all is shown."""
    missing = [
        (part, [piece.name for number, piece in enumerate(part.pieces) if number not in shown])
        for part, shown in zip(parts, kept, strict=True)
    ]
    missing = [(part, names) for part, names in missing if names or part.earlier]
    if not missing:
        return ""
    most = max(LEAST // 6, budget // 8) if budget is not None else None
    for text in (_by_name(missing), _on_one_line(missing), _by_section(missing)):
        if most is None or len(text) <= most:
            return text
    total = sum(len(names) + part.earlier for part, names in missing)
    return f"Left out: {total} items of {len(missing)} sections; `sitrep checkpoint --budget full` gives them."


def _by_name(missing: Sequence[tuple[Part, list[str]]]) -> str:
    lines = [f"- {part.title}: {_names(names, part.earlier)}{_call(part)}" for part, names in missing]
    return "\n".join(["## Left out (`sitrep show ID` gives one, `sitrep checkpoint --budget full` most)", *lines])


def _names(names: Sequence[str], earlier: int) -> str:
    told = list(dict.fromkeys(names))
    shown = [*told[:_NAMED], *([f"{len(told) - _NAMED} more"] if len(told) > _NAMED else [])]
    return ", ".join([*shown, *([f"{earlier} earlier ones"] if earlier else [])])


def _on_one_line(missing: Sequence[tuple[Part, list[str]]]) -> str:
    told = list(dict.fromkeys(name for _, names in missing for name in names))
    earlier = [f"{part.earlier} earlier of {part.title}{_call(part)}" for part, _ in missing if part.earlier]
    return f"Left out (`sitrep show ID` gives one): {', '.join([*told, *earlier])}."


def _by_section(missing: Sequence[tuple[Part, list[str]]]) -> str:
    counts = [f"{len(names) + part.earlier} of {part.title}{_call(part)}" for part, names in missing]
    return f"Left out: {'; '.join(counts)}."


def _call(part: Part) -> str:
    return f" (`{part.more}`)" if part.more else ""
