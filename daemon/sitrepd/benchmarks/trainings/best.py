"""Which epoch or step of a training run is best, and its curves."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from sitrepd.benchmarks.curves import Curve, curves
from sitrepd.benchmarks.drawing import Drawing
from sitrepd.benchmarks.metrics import Metric, describe, display_text
from sitrepd.errors import InvalidFact

# What a draft is trained for comes first, what was measured on other data than it was trained on before the rest.
_ACCEPTED = r"acc(?:ept)?(?:ance)?_?(?:len|rate|length)"
_PREFERRED = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?:.*[/_])?eval.*{_ACCEPTED}.*", rf"(?:.*[/_])?{_ACCEPTED}.*", r"eval.*(?:acc|accuracy)(?:_0)?",
        r"(?:eval|val).*loss(?:_0)?", r"(?:.*[/_])?(?:acc|accuracy)(?:_0)?", r"(?:.*[/_])?p?loss(?:_0)?",
    )
)  # fmt: skip
_MODE = re.compile(r"^(?:train|eval|val|valid|validation)[/_]")


class Place(NamedTuple):
    """A point of a run: where it is, and what was measured."""

    epoch: Decimal | None
    step: int | None
    metrics: dict[str, Metric]

    def __str__(self) -> str:
        told = [f"epoch {self.epoch}"] if self.epoch is not None else []
        return ", ".join(told + ([f"step {self.step}"] if self.step is not None else []))


class Best(NamedTuple):
    place: Place
    metric: Metric


def best(points: Sequence[Place], metric: str | None = None) -> Best | None:
    """By that metric, else by the one that matters most of those measured; None where none is better than another."""
    name = metric or chosen(points)
    told = [(point, point.metrics[name]) for point in points if name in point.metrics]
    better = next((one.better for _, one in told if one.better), None) or (describe(name)[1] if name else None)
    if better is None or len({one.value for _, one in told}) < 2:
        return None
    pick = max if better == "higher" else min
    return Best(*pick(told, key=lambda one: one[1].value))


def chosen(points: Sequence[Place]) -> str | None:
    return preferred(Counter(name for point in points for name in point.metrics))


def preferred(measured: Mapping[str, int]) -> str | None:
    """The metric that matters most of those that were measured more than once."""
    for pattern in _PREFERRED:
        for name, times in measured.items():
            if times > 1 and pattern.fullmatch(name):
                return name
    return None


def drawn(points: Sequence[Place], metric: str | None = None) -> Drawing:
    """The curve of a metric, with that of the same on other data beside it, and the best point."""
    name = metric or chosen(points)
    if name is None or not any(name in point.metrics for point in points):
        names = ", ".join(sorted({one for point in points for one in point.metrics})[:12])
        why = f"there is no {metric}" if metric else "no metric has two points"
        raise InvalidFact(f"No curve can be drawn: {why}; there are {names or 'none'}.")
    top = best(points, name)
    lines = []
    for one in _alike(points, name):
        told = [(at, point) for point in points if one in point.metrics and (at := _at(points, point)) is not None]
        line = [(at, float(point.metrics[one].value)) for at, point in told]
        place = next((at for at, (_, p) in enumerate(told) if top is not None and one == name and p is top.place), None)
        words = f"{display_text(top.metric.value)} at {top.place}" if top is not None and place is not None else ""
        if line:
            lines.append(Curve(one, line, (place, words) if place is not None else None))
    under = "step" if _by_steps(points) else "epoch"
    return curves(f"{name} by {under}", under, name, lines)


def _alike(points: Sequence[Place], name: str) -> list[str]:
    """The metric, and what is called the same but for train or eval before it."""
    names = dict.fromkeys(one for point in points for one in point.metrics)
    plain = _MODE.sub("", name)
    return [name, *(one for one in names if one != name and _MODE.sub("", one) == plain)]


def _by_steps(points: Sequence[Place]) -> bool:
    return all(point.step is not None for point in points)


def _at(points: Sequence[Place], point: Place) -> float | None:
    if _by_steps(points):
        return float(point.step or 0)
    return float(point.epoch) if point.epoch is not None else float(point.step) if point.step is not None else None


def places(points: Sequence[Any]) -> list[Place]:
    """Of the points as the API tells them."""
    return [
        Place(
            point.epoch, point.step,
            {name: Metric(name, one.value, one.unit, one.better) for name, one in point.metrics.items()},
        )
        for point in points
    ]  # fmt: skip
