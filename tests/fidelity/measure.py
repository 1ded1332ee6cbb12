"""The scores by budget and type over many sessions: canaries, exact use, and rounds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from tests.fidelity import rounds, scores, sessions, use
from tests.fidelity.scores import PINNED, Score
from tests.fidelity.sessions import LARGE, MEDIUM, SMALL, Size
from tests.fidelity.stores import fresh_mind
from tests.fidelity.world import World

# Which sessions are measured at which budget: those whose pinned facts have room there.
SIZES: dict[int, tuple[Size, ...]] = {2000: (SMALL,), 4000: (SMALL, MEDIUM), 9000: (SMALL, MEDIUM, LARGE)}


@dataclass(frozen=True)
class Line:
    """One score; `wanted` is the least that will do, None where it is only told. `way` says what of rounds it is."""

    budget: int
    type: str
    score: float
    present: int
    of: int
    wanted: float | None = None
    way: str | None = None
    absent: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        return self.wanted is None or self.score >= self.wanted

    def json(self) -> str:
        return json.dumps(
            {name: value for name, value in asdict(self).items() if value is not None}, ensure_ascii=False
        )

    def __str__(self) -> str:
        mark = "" if self.wanted is None else "  pinned" if self.good else "  TOO LOW"
        way = f" ({self.way})" if self.way else ""
        return f"{self.budget:6} {self.type + way:44} {self.present:5} of {self.of:5} {self.score:8.1%}{mark}"


class Tally:
    """Scores that are added up over sessions, by budget and type."""

    def __init__(self, way: str | None = None) -> None:
        self._way = way
        self._scores: dict[tuple[int, str], Score] = {}

    def add(self, budget: int, score: Score) -> None:
        self._scores.setdefault((budget, score.type), Score(score.type)).add(score)

    def check(self, budget: int, kind: str, good: bool, why: str) -> None:
        """One more case of what is either right or wrong."""
        score = self._scores.setdefault((budget, kind), Score(kind))
        score.of += 1
        score.present += good
        if not good:
            score.wrong.append(why)

    def lines(self) -> Iterator[Line]:
        for (budget, kind), score in sorted(self._scores.items(), key=lambda one: (one[0][0], _place(one[0][1]))):
            wanted = 1.0 if kind in WANTED else None
            absent = tuple(score.wrong[:5]) if wanted is not None else ()
            yield Line(budget, kind, score.share, score.present, score.of, wanted, self._way, absent)


CHECKS = (
    "over_told_as_over",
    "only_facts",
    "within_budget",
    "command_is_argv",
    "next_step_is_right",
    "no_rejected_proposed",
)
WANTED = (*PINNED, *CHECKS)


def _place(kind: str) -> tuple[int, str]:
    return (WANTED.index(kind), "") if kind in WANTED else (len(WANTED), kind)


def look(tally: Tally, text: str, world: World, budget: int, every: bool = True) -> None:
    """All that is measured of one checkpoint."""
    facts = [*world.pinned(), *(world.others() if every else ())]
    for score in scores.scores(text, facts).values():
        tally.add(budget, score)
    stale = scores.told_as_current(text, world.past())
    tally.check(budget, "over_told_as_over", not stale, str([line for _, line in stale][:2]))
    tally.check(budget, "only_facts", not scores.decoys(text, world.decoys), "a message is told as a fact")
    tally.check(budget, "within_budget", len(text) <= budget, f"{len(text)} characters")
    command, server = use.best_command(text), world.best.launch
    right = command is not None and server is not None and (command.argv, command.env) == (server.argv, server.env)
    tally.check(budget, "command_is_argv", right, str(command))
    step = use.next_step(text)
    tally.check(budget, "next_step_is_right", step == world.next_step.text, str(step))
    proposed = [one.title for one in world.rejected if one.title in use.proposed(text)]
    tally.check(budget, "no_rejected_proposed", not proposed, str(proposed))


def canaries(seeds: Sequence[int], messages: int, sizes: dict[int, tuple[Size, ...]] = SIZES) -> Iterator[Line]:
    """Sessions of each size, at each budget in which their pinned facts have room."""
    tally = Tally()
    for seed in seeds:
        for size in (SMALL, MEDIUM, LARGE):
            world = sessions.make(seed, size, messages)
            with fresh_mind() as mind:
                mind.take(sessions.session_file(world))
                for budget in (one for one, fitting in sizes.items() if size in fitting):
                    look(tally, mind.checkpoint("md", budget), world, budget)
    yield from tally.lines()


def after_rounds(seeds: Sequence[int], ways: Sequence[rounds.Way] = rounds.WAYS) -> Iterator[Line]:
    """What is left of the pinned facts after the last round."""
    for way in ways:
        tally = Tally(f"after {rounds.ROUNDS} rounds by {way.name}")

        def last(one: rounds.Round, tally: Tally = tally) -> None:
            if one.number == rounds.ROUNDS:
                look(tally, one.text, one.world, 9000, every=False)

        for seed in seeds:
            rounds.play(seed, way, last)
        yield from tally.lines()
