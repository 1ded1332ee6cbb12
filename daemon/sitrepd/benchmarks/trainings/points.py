"""Points of a training run as they are read, and which of many are kept."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

from sitrepd.benchmarks.metrics import describe
from sitrepd.decimals import number_text
from sitrepd.errors import SitrepError

MOST = 1000
_MOST_DIGITS = 300
# How fast the machine was, which says nothing of what was learnt.
_ASIDE = re.compile(r"(?:.*[_/])?(?:runtime|(?:samples|steps|tokens)_per_second|time|thru)|total_flos")


class TrainingFileError(SitrepError):
    """A file that no training run can be made of; `detail` says why."""

    status = 422
    title = "No training run"


@dataclass
class ReadPoint:
    """An epoch or a step with what was measured there."""

    epoch: Decimal | None
    step: int | None
    metrics: dict[str, Decimal] = field(default_factory=dict)

    def told(self) -> dict[str, Any]:
        """As the API takes it; units and directions by the names."""
        place = {"epoch": self.epoch, "step": self.step}
        metrics = {}
        for name, value in self.metrics.items():
            unit, better = describe(name)
            metrics[name] = {key: one for key, one in (("value", value), ("unit", unit), ("better", better)) if one}
            metrics[name]["value"] = value
        return {key: one for key, one in place.items() if one is not None} | {"metrics": metrics}


class Points:
    """What one place tells in several lines, such as a loss and an evaluation, is one point."""

    def __init__(self) -> None:
        self.found: dict[tuple[str | None, int | None], ReadPoint] = {}
        self.infinite = 0
        self.first_infinite: str | None = None

    def add(self, epoch: Any, step: Any, metrics: Mapping[str, Any]) -> None:
        """Takes the numbers among the metrics; those that are not finite are counted."""
        at = (decimal(epoch), whole(step))
        if at == (None, None):
            return
        values = {name: value for name, told in metrics.items() if (value := self._value(name, told, at)) is not None}
        if not values:
            return
        key = (None if at[0] is None else number_text(at[0]), at[1])
        point = self.found.setdefault(key, ReadPoint(*at))
        point.metrics |= values

    def _value(self, name: str, told: Any, at: tuple[Decimal | None, int | None]) -> Decimal | None:
        if _ASIDE.fullmatch(name.lower()) or isinstance(told, bool):
            return None
        if _is_infinite(told):
            self.infinite += 1
            place = f"epoch {at[0]}" if at[1] is None else f"step {at[1]}"
            self.first_infinite = self.first_infinite or f"{name} at {place}"
            return None
        return decimal(told)

    def notes(self) -> list[str]:
        if not self.infinite:
            return []
        values = "value was" if self.infinite == 1 else "values were"
        return [f"{self.infinite} {values} not finite, the first {self.first_infinite}."]


def decimal(told: Any) -> Decimal | None:
    """A finite number, also one in quotes as newer Transformers print it; None of anything else."""
    if isinstance(told, bool) or not isinstance(told, int | float | str | Decimal):
        return None
    try:
        value = Decimal(told if isinstance(told, str | Decimal | int) else repr(told))
    except InvalidOperation:
        return None
    # A larger one would take all memory where its digits are written out.
    return value if value.is_finite() and value.adjusted() <= _MOST_DIGITS else None


def whole(told: Any) -> int | None:
    value = decimal(told)
    return int(value) if value is not None and value == value.to_integral_value() and value >= 0 else None


def _is_infinite(told: Any) -> bool:
    if isinstance(told, float):
        return not math.isfinite(told)
    return isinstance(told, str) and told.strip().lower().lstrip("+-") in ("nan", "inf", "infinity")


def thinned(points: Sequence[ReadPoint], most: int = MOST) -> list[ReadPoint]:
    """At most so many and a few: evenly spaced, with the first, the last, and the best by each metric."""
    if len(points) <= most:
        return list(points)
    kept = {round(at * (len(points) - 1) / (most - 1)) for at in range(most)}
    kept.update(_best_places(points))
    return [points[at] for at in sorted(kept)]


def _best_places(points: Sequence[ReadPoint]) -> Iterable[int]:
    best: dict[str, tuple[Decimal, int]] = {}
    for at, point in enumerate(points):
        for name, value in point.metrics.items():
            better = describe(name)[1]
            if better is None:
                continue
            score = value if better == "higher" else -value
            if name not in best or score > best[name][0]:
                best[name] = (score, at)
    return [at for _, at in best.values()]
