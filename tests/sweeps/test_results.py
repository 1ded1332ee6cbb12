"""Which trial cannot win, what a search chooses, when a sweep will be done."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from sitrepd.errors import InvalidFact
from sitrepd.sweeps import search
from sitrepd.sweeps.asked import EarlyStopIn, SearchIn, SweepAsked
from sitrepd.sweeps.eta import left
from sitrepd.sweeps.grid import grid_of
from sitrepd.sweeps.results import Measured, cannot_win

RULE = EarlyStopIn(after=1, margin_percent=5.0)
BEST = Measured(1, [94.0, 94.2, 93.8], True)


def test_a_trial_far_below_the_best_is_given_up_and_one_near_it_is_not() -> None:
    said = cannot_win(Measured(2, [80.0], False), [BEST], RULE, True)
    assert (
        said == "it cannot win: 80 after 1 of its runs, at most 84 with a margin of 5.0 %; the best has at least 93.5"
    )
    assert cannot_win(Measured(2, [89.5], False), [BEST], RULE, True) is None
    assert cannot_win(Measured(2, [95.0], False), [BEST], RULE, True) is None


def test_of_a_latency_less_is_better() -> None:
    best = Measured(1, [10.0, 10.1], True)
    assert cannot_win(Measured(2, [14.0], False), [best], RULE, False) is not None
    assert cannot_win(Measured(2, [9.0], False), [best], RULE, False) is None


def test_nobody_is_given_up_before_a_trial_was_measured_to_its_end() -> None:
    assert cannot_win(Measured(2, [1.0], False), [Measured(1, [94.0], False)], RULE, True) is None
    assert cannot_win(Measured(2, [1.0], False), [BEST], EarlyStopIn(after=2, margin_percent=5.0), True) is None


def test_a_large_spread_makes_the_margin_larger() -> None:
    noisy = Measured(1, [80.0, 94.0, 108.0], True)
    assert cannot_win(Measured(2, [70.0], False), [noisy], RULE, True) is None
    assert cannot_win(Measured(2, [70.0], False), [BEST], RULE, True) is not None


def _asked(method: str, trials: int | None = 12) -> SweepAsked:
    return SweepAsked.model_validate({
        "template": {"argv": ["x"]}, "parameters": {"a": {"from": 1, "to": 10}, "b": ["x", "absent"]},
        "constraints": ["not (a == 7 and b is absent)"], "benchmarks": [{}], "search": {"method": method, "trials": trials},
    })  # fmt: skip


@pytest.mark.parametrize("method", ["random", "tpe"])
def test_a_search_tries_nothing_twice_and_nothing_that_is_ruled_out(method: str) -> None:
    if method == "tpe":
        pytest.importorskip("optuna")
    told = _asked(method)
    grid = grid_of(told)
    tried: list[Any] = []
    measured: list[Any] = []
    for _ in range(12):
        chosen = search.next_of(told.searching, grid, tried, measured, True)
        again = search.next_of(told.searching, grid, tried, measured, True)
        assert chosen is not None
        assert again == chosen, "the next daemon chooses the same"
        assert chosen.own not in tried
        assert grid.allows(chosen)
        tried.append(chosen.own)
        measured.append((chosen.own, 100.0 - abs(chosen.own["a"] - 6) - (5.0 if chosen.own["b"] is None else 0.0)))
    if method == "tpe":
        assert max(value for _, value in measured) >= 99.0


def test_a_small_space_is_tried_whole() -> None:
    told = SweepAsked.model_validate(
        {"template": {"argv": ["x"]}, "parameters": {"a": [1, 2]}, "benchmarks": [{}], "search": "random"}
    )
    grid = grid_of(told)
    assert search.next_of(told.searching, grid, [{"a": 1}], [], True).own == {"a": 2}  # type: ignore[union-attr]
    assert search.next_of(told.searching, grid, [{"a": 1}, {"a": 2}], [], True) is None


def test_a_search_without_an_end_or_without_its_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidFact, match="how many trials"):
        search.count_of(_asked("random", None), 19)
    assert search.count_of(_asked("random", 50), 19) == 19
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    with pytest.raises(InvalidFact, match=r"pip install 'sitrepd\[search\]'"):
        search.optuna_of(SearchIn(method="tpe", trials=3))


def _trial(state: str, began: int | None = None, took: int | None = None) -> Any:
    start = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=began) if began is not None else None
    end = start + timedelta(seconds=took) if start and took is not None else None
    return SimpleNamespace(state=state, started_at=start, ended_at=end, launch_id=None)


def test_the_time_left_follows_from_the_trials_that_were_measured() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=400)
    trials = [
        _trial("done", 0, 100),
        _trial("failed", 100, 5),
        _trial("done", 105, 200),
        _trial("running", 305),
        _trial("planned"),
    ]
    found = left(trials, 6, now)
    assert (found.trials, found.seconds, found.low, found.high) == (2, 355.0, 210.0, 505.0)
    assert left([_trial("running", 0), _trial("planned")], 2, now).seconds is None


def test_a_first_start_that_compiled_its_kernels_does_not_weigh_on_the_others() -> None:
    """Trials of an H200: 347 s with all kernels to compile, then 224 and 223 s."""
    now = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=824)
    trials = [_trial("done", 0, 347), _trial("done", 347, 224), _trial("done", 571, 223), _trial("running", 794)]
    found = left(trials, 4, now)
    assert (found.trials, found.seconds, found.high) == (0, 194.0, 317.0)
