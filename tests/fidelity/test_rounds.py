"""Five checkpoints in a row, each written by a mind that has only the one before it: nothing that is pinned gets lost."""

from __future__ import annotations

import pytest
from tests.fidelity import rounds, scores
from tests.fidelity.rounds import WAYS, Round, Way

NAMES = [way.name for way in WAYS]


def play(seed: int, way: Way) -> list[str]:
    """What is wrong, round by round."""
    found: list[str] = []
    seen: list[int] = []

    def look(one: Round) -> None:
        seen.append(one.number)
        found.extend(f"round {one.number}: {fault}" for fault in scores.faults(one.text, one.world, 9000))

    rounds.play(seed, way, look)
    assert seen == [*range(rounds.ROUNDS + 1)]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("way", [WAYS[0], WAYS[-1]], ids=[NAMES[0], NAMES[-1]])
def test_nothing_is_lost_in_five_rounds(way: Way) -> None:
    assert play(1, way) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 10))
@pytest.mark.parametrize("way", WAYS, ids=NAMES)
def test_nothing_is_lost_in_five_rounds_of_any_session(way: Way, seed: int) -> None:
    assert play(seed, way) == []
