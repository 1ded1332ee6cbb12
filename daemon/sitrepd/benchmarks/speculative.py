"""A model of speculative decoding by a chain of drafts: how much faster so many steps are expected to be.

Leviathan, Kalman and Matias, "Fast Inference from Transformers via Speculative Decoding" (ICML 2023): where each draft
is accepted with probability a, k drafts give (1 - a^(k+1)) / (1 - a) tokens a step; a step costs as much as `base`
plain ones and `draft` more for each draft; the speed-up is the tokens of a step by its cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

MOST_STEPS = 10
_ENOUGH = 2
_FREE = 3
_LOOK, _LOOKS, _SURE = 40, 4, 0.995
_AS_GOOD = 0.01


@dataclass(frozen=True)
class Point:
    """What was measured with so many steps: the speed-up to the baseline, and tokens a step where they are known."""

    steps: int
    speedup: float
    accepted: float | None = None
    ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class Costs:
    """Of a speculative step, in plain ones: `base` for verifying and what is done once, `draft` for each draft."""

    base: float
    draft: float
    source: str

    def of(self, steps: int) -> float:
        return self.base + self.draft * steps


@dataclass(frozen=True)
class Expected:
    """One number of steps; `off` is how far the expected speed-up is from the measured one, as a share of that."""

    steps: int
    tokens: float
    cost: float
    speedup: float
    measured: Point | None = None

    @property
    def off(self) -> float | None:
        return None if self.measured is None else self.speedup / self.measured.speedup - 1


@dataclass(frozen=True)
class Model:
    """`best` are the numbers of steps that are expected to be fastest, the first one first; (0,) is no speculation.

    `misfit` is the root mean square of `off`; `blind` is that of points which were left out of the fit.
    """

    acceptance: float
    acceptance_from: str
    costs: Costs
    rows: tuple[Expected, ...]
    best: tuple[int, ...]
    misfit: float | None
    blind: float | None
    notes: tuple[str, ...] = ()


def tokens(acceptance: float, steps: int) -> float:
    """Tokens that a step is expected to give, the target's own one included."""
    return math.fsum(acceptance**at for at in range(steps + 1))


def acceptance_of(accepted: float, steps: int) -> float:
    """The chance of a draft to be accepted that gives so many tokens a step; 0 to 1."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if tokens(middle, steps) < accepted else (low, middle)
    return (low + high) / 2


def fitted(
    points: Sequence[Point], acceptance: float | None = None, costs: Costs | None = None, most: int = MOST_STEPS
) -> Model | str:
    """The model of what was measured; the reason where there is too little.

    What is told (the chance of a draft, the costs of a profile) is taken as it is.
    """
    found = _fit(points, acceptance, costs)
    if isinstance(found, str):
        return found
    chance, chance_from, costs, notes = found
    by_steps = {point.steps: point for point in points}
    rows = tuple(_expected(steps, chance, costs, by_steps.get(steps)) for steps in range(1, max([most, *by_steps]) + 1))
    misfit = _root_mean_square([row.off for row in rows if row.off is not None])
    blind = _blind(points, acceptance, None if costs.source == FITTED else costs)
    return Model(chance, chance_from, costs, rows, _best(rows, misfit), misfit, blind, tuple(notes))


FITTED = "the measured speed-ups"
_Fit = tuple[float, str, Costs, list[str]]


def _fit(points: Sequence[Point], acceptance: float | None, costs: Costs | None) -> _Fit | str:
    told = [point for point in points if point.accepted is not None]
    if acceptance is not None:
        chance, source = acceptance, "told"
    elif told:
        chance, source = _chance(told), f"the accept length of {', '.join(_named(point) for point in told)}"
    elif costs is None and len(points) >= _FREE:
        return _all_fitted(points)
    else:
        return (
            "How many drafts are accepted is not known: measure accept_length, tell it with --accept-rate, or measure "
            f"{_FREE} different numbers of steps."
        )
    if costs is not None:
        return chance, source, costs, []
    if len(points) < _ENOUGH:
        return f"The cost of a step is not known: measure {_ENOUGH} different numbers of steps, or name a --profile."
    costs, notes = _line(points, chance)
    if len(points) == _ENOUGH and not notes:
        notes = ["2 speed-ups for 2 costs: that they fit says nothing of how right it is."]
    return chance, source, costs, notes


def _named(point: Point) -> str:
    return " ".join(point.ids) or f"{point.steps} steps"


def _chance(told: Sequence[Point]) -> float:
    """The one that comes nearest to all accept lengths."""
    if len(told) == 1:
        return acceptance_of(told[0].accepted or 1.0, told[0].steps)
    return _least(lambda a: math.fsum((tokens(a, one.steps) - (one.accepted or 1.0)) ** 2 for one in told))


def _least(score: Callable[[float], float]) -> float:
    """The chance from 0 to 1 of the least score: a coarse look at all, then finer ones about the best."""
    low, high, found = 0.0, 1.0, 0.0
    for _ in range(_LOOKS):
        tried = [low + (high - low) * at / _LOOK for at in range(_LOOK + 1)]
        found = min(tried, key=score)
        step = (high - low) / _LOOK
        low, high = max(0.0, found - step), min(1.0, found + step)
    return found


def _line(points: Sequence[Point], chance: float) -> tuple[Costs, list[str]]:
    """Costs by least squares; those of a draft are not negative, whatever noise says."""
    xs = [float(point.steps) for point in points]
    ys = [_tokens(point, chance) / point.speedup for point in points]
    x, y = math.fsum(xs) / len(xs), math.fsum(ys) / len(ys)
    spread = math.fsum((one - x) ** 2 for one in xs)
    draft = math.fsum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / spread if spread else 0.0
    notes = []
    if draft < 0:
        notes.append("More steps came out cheaper than fewer: the cost of a draft is lost in noise, and taken as 0.")
        draft = 0.0
    return Costs(y - draft * x, draft, FITTED), notes


def _tokens(point: Point, chance: float) -> float:
    return point.accepted if point.accepted is not None else tokens(chance, point.steps)


def _all_fitted(points: Sequence[Point]) -> _Fit:
    """The chance with which the line fits best; badly known, since cheaper and less accepted drafts look alike."""

    def off(chance: float) -> float:
        costs, _ = _line(points, chance)
        each = [tokens(chance, one.steps) / costs.of(one.steps) / one.speedup - 1 for one in points]
        return _root_mean_square(each) or 0.0

    # A draft that is always accepted is none that could be told apart from a cheap one.
    chance = min(_least(off), _SURE)
    costs, notes = _line(points, chance)
    if len(points) == _FREE:
        notes = [*notes, f"{_FREE} speed-ups for {_FREE} unknowns: that they fit says nothing of how right it is."]
    return chance, FITTED, costs, notes


def _expected(steps: int, chance: float, costs: Costs, measured: Point | None) -> Expected:
    gives = _tokens(measured, chance) if measured is not None else tokens(chance, steps)
    return Expected(steps, gives, costs.of(steps), gives / costs.of(steps), measured)


def _best(rows: Sequence[Expected], misfit: float | None) -> tuple[int, ...]:
    """The fastest, then those that the model cannot tell from it: within a hundredth, or within its misfit."""
    within = max(_AS_GOOD, misfit or 0.0)
    top = max(rows, key=lambda row: row.speedup)
    if top.speedup <= 1:
        return (0,)
    near = [row.steps for row in rows if row is not top and row.speedup >= top.speedup * (1 - within)]
    return (top.steps, *near)


def _blind(points: Sequence[Point], acceptance: float | None, costs: Costs | None) -> float | None:
    """How far off it is where it has not seen the figure: each point by a model of the others."""
    off = []
    for at, point in enumerate(points):
        rest = [*points[:at], *points[at + 1 :]]
        found = _fit(rest, acceptance, costs)
        if isinstance(found, str) or costs is not None:
            return None
        chance, _, line, _ = found
        off.append(_expected(point.steps, chance, line, replace(point)).off or 0.0)
    return _root_mean_square(off)


def _root_mean_square(values: Sequence[float]) -> float | None:
    return math.sqrt(math.fsum(value * value for value in values) / len(values)) if values else None
