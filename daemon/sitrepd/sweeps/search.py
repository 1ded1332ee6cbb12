"""Which trial is next: in the order of the grid, or as a sampler of Optuna chooses."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

from sitrepd.errors import InvalidFact
from sitrepd.sweeps.asked import SearchIn, SweepAsked
from sitrepd.sweeps.grid import Combination, Grid, Settings

_TRIES = 200
_FROM_OPTUNA = ("tpe",)


def count_of(asked: SweepAsked, combinations: int) -> int:
    """How many trials there will be at the most; raises InvalidFact for a search that cannot be made."""
    method = asked.searching
    if method.method in _FROM_OPTUNA:
        optuna_of(method)
    wanted = [one for one in (method.trials, asked.budget.trials) if one is not None]
    if method.method != "grid" and not wanted:
        raise InvalidFact(f'search: how many trials? Write search = {{ method = "{method.method}", trials = 12 }}.')
    return min([combinations, *wanted])


def optuna_of(method: SearchIn) -> Any:
    """Loaded when a search wants it, and never before."""
    try:
        import optuna
    except ImportError:
        raise InvalidFact(
            f"search = {method.method!r} needs Optuna, which is not installed: pip install 'sitrepd[search]' "
            "(where the daemon runs). Without it there are grid and random."
        ) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def next_of(
    method: SearchIn,
    grid: Grid,
    tried: Sequence[Settings],
    measured: Sequence[tuple[Settings, float]],
    higher_is_better: bool,
) -> Combination | None:
    """A combination that was not tried yet, by what those that were came to; None where there is none.

    Nothing is kept from one choice to the next, so that a daemon that starts anew chooses as the one before it would.
    """
    seen = {_key(one) for one in tried}
    if method.method in _FROM_OPTUNA:
        found = _asked(method, grid, seen, measured, higher_is_better, len(tried))
        if found is not None:
            return found
    left = [one for one in grid.combinations() if _key(one.own) not in seen]
    return random.Random(f"{method.seed} {len(tried)}").choice(left) if left else None


def _asked(
    method: SearchIn, grid: Grid, seen: set[str], measured: Sequence[tuple[Settings, float]], higher: bool, round_: int
) -> Combination | None:
    optuna = optuna_of(method)
    choices = {name: _distribution(optuna, values) for name, values in grid.values.items()}
    study = optuna.create_study(
        direction="maximize" if higher else "minimize", sampler=_sampler(optuna, method, round_)
    )
    for own, value in measured:
        params = _places(grid, own)
        if params is not None:
            study.add_trial(optuna.trial.create_trial(params=params, distributions=choices, value=value))
    for _ in range(_TRIES):
        trial = study.ask(choices)
        own = {name: values[trial.params[name]] for name, values in grid.values.items()}
        found = grid.combination(own)
        if _key(own) not in seen and grid.allows(found):
            return found
        study.tell(trial, state=optuna.trial.TrialState.FAIL)
    return None


def _sampler(optuna: Any, method: SearchIn, round_: int) -> Any:
    few = max(3, (method.trials or 12) // 4)
    return optuna.samplers.TPESampler(seed=method.seed * 10_007 + round_, n_startup_trials=few)


def _distribution(optuna: Any, values: Sequence[Any]) -> Any:
    """By place in the list: of numbers in their order the sampler may learn that neighbours are alike."""
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(numbers) == len(values) and numbers in (sorted(numbers), sorted(numbers, reverse=True)):
        return optuna.distributions.IntDistribution(0, len(values) - 1)
    return optuna.distributions.CategoricalDistribution(tuple(range(len(values))))


def _places(grid: Grid, own: Mapping[str, Any]) -> dict[str, int] | None:
    """The values as places in their lists, since Optuna takes no lists and no None among numbers."""
    try:
        return {name: values.index(own[name]) for name, values in grid.values.items()}
    except (KeyError, ValueError):
        return None


def _key(own: Mapping[str, Any]) -> str:
    return json.dumps(own, sort_keys=True, default=str)
