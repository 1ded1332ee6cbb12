"""How much of what is true a checkpoint holds, by type, and what it tells as current that is over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tests.fidelity import markdown
from tests.fidelity.world import Fact, Past, World

PINNED = ("running", "directive", "next_step", "best", "best_command", "root_cause", "rejected")


@dataclass
class Score:
    """Of one type: how many cases there are, how many are right, and what is wrong with the others."""

    type: str
    of: int = 0
    present: int = 0
    absent: list[Fact] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def share(self) -> float:
        return self.present / self.of if self.of else 1.0

    def add(self, other: Score) -> None:
        self.of += other.of
        self.present += other.present
        self.absent += other.absent
        self.wrong += other.wrong


def scores(text: str, facts: Iterable[Fact]) -> dict[str, Score]:
    """A fact is present where one statement holds all of its texts, each of them character for character."""
    statements = [item.told() for item in markdown.read(text).items]
    found: dict[str, Score] = {}
    for fact in facts:
        score = found.setdefault(fact.type, Score(fact.type))
        score.of += 1
        if any(all(one in statement for one in fact.texts) for statement in statements):
            score.present += 1
        else:
            score.absent.append(fact)
            score.wrong.append(" / ".join(fact.texts))
    return found


def absent(text: str, facts: Iterable[Fact]) -> list[Fact]:
    return [fact for score in scores(text, facts).values() for fact in score.absent]


def told_as_current(text: str, past: Iterable[Past]) -> list[tuple[Past, str]]:
    """Lines that hold the mark of what is over without a word that says so; a command counts with its statement."""
    page = markdown.read(text)
    return [
        (one, item.line)
        for one in past
        for item in page.items
        if one.mark in item.told() and not any(word in item.line for word in one.words)
    ]


def decoys(text: str, told: Sequence[str]) -> list[str]:
    """What only messages said."""
    return [one for one in told if one in text]


def faults(text: str, world: World, budget: int) -> list[str]:
    """All that is wrong with a checkpoint in which the pinned facts have room, in words."""
    found = [f"{fact.type} is absent: {fact.texts}" for fact in absent(text, world.pinned())]
    found += [f"{one.type} reads as current: {line}" for one, line in told_as_current(text, world.past())]
    found += [f"only a message said {one}" for one in decoys(text, world.decoys)]
    return found + ([f"{len(text)} characters, budget {budget}"] if len(text) > budget else [])
