"""Buckets of equal length over a time, and what falls into them, column by column."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import count
from typing import NamedTuple

Figures = tuple[float | None, float | None, float | None]
# A bucket's number, and the places from and before which it lies in a list of times.
Run = tuple[int, int, int]
Curve = tuple[list[float | None], list[float | None], list[float | None]]


class Bucket(NamedTuple):
    """`values` are (min, mean, max) by metric; a bucket without samples stands for a gap.

    `span_s` is how long one of the stored values it is made of stands for.
    """

    number: int
    samples: int = 0
    throttled: int = 0
    values: Mapping[str, Figures] | None = None
    span_s: float = 0


@dataclass(frozen=True, slots=True)
class Grid:
    """From `since` to before `until`, both in milliseconds; the last bucket ends there exactly."""

    since: int
    until: int
    points: int

    @property
    def step_ms(self) -> float:
        return (self.until - self.since) / self.points

    def runs(self, at_ms: Sequence[int]) -> list[Run]:
        """(bucket, first place, place after the last), of the buckets that hold any of the times, which are in order.

        What began before `since` is in the first.
        """
        places = [0, *map(partial(bisect_left, at_ms), _edges(self.since, self.until, self.points))]
        return [run for run in zip(count(), places, places[1:], strict=False) if run[2] > run[1]]


@lru_cache(maxsize=8)
def _edges(since: int, until: int, points: int) -> Sequence[int]:
    """Where each bucket ends; the same for every GPU that is asked about."""
    return [since - (-number * (until - since) // points) for number in range(1, points + 1)]


@dataclass(slots=True)
class Columns:
    """Buckets that hold samples, in order; `curves` are (min, mean, max) by metric."""

    numbers: list[int] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)
    throttled: list[int] = field(default_factory=list)
    span_s: list[float] = field(default_factory=list)
    curves: dict[str, Curve] = field(default_factory=dict)

    def buckets(self) -> list[Bucket]:
        rows = [
            dict(zip(self.curves, row, strict=True))
            for row in zip(*(zip(*curve, strict=True) for curve in self.curves.values()), strict=True)
        ] or [{} for _ in self.numbers]
        return [*map(Bucket, self.numbers, self.samples, self.throttled, rows, self.span_s)]

    def append(self, more: Columns) -> None:
        """What comes later; where the two meet in one bucket, means weigh as many samples as they have."""
        start = 0
        while start < len(more.numbers) and self.numbers and more.numbers[start] <= self.numbers[-1]:
            self._merge(bisect_left(self.numbers, more.numbers[start]), more, start)
            start += 1
        self.numbers += more.numbers[start:]
        self.samples += more.samples[start:]
        self.throttled += more.throttled[start:]
        self.span_s += more.span_s[start:]
        for mine, theirs in self._pairs(more):
            for column, other in zip(mine, theirs, strict=True):
                column += other[start:]

    def _merge(self, place: int, more: Columns, other: int) -> None:
        if self.numbers[place] != more.numbers[other]:
            self._insert(place, more.numbers[other])
        weights = self.samples[place], more.samples[other]
        for (low, mean, high), (low2, mean2, high2) in self._pairs(more):
            a, b = (low[place], mean[place], high[place]), (low2[other], mean2[other], high2[other])
            low[place], mean[place], high[place] = _merged(a, weights[0], b, weights[1])
        self.samples[place] += weights[1]
        self.throttled[place] += more.throttled[other]
        self.span_s[place] = max(self.span_s[place], more.span_s[other])

    def _insert(self, place: int, number: int) -> None:
        self.numbers.insert(place, number)
        for counts in (self.samples, self.throttled, self.span_s):
            counts.insert(place, 0)
        for curve in self.curves.values():
            for column in curve:
                column.insert(place, None)

    def _pairs(self, more: Columns) -> list[tuple[Curve, Curve]]:
        return [(curve, more.curves[name]) for name, curve in self.curves.items()]


def together(parts: Sequence[Columns], names: Collection[str]) -> Columns:
    found = Columns(curves={name: ([], [], []) for name in names})
    for part in parts:
        found.append(part)
    return found


def _merged(one: Figures, weight: int, other: Figures, other_weight: int) -> Figures:
    if one[1] is None:
        return other
    if other[1] is None:
        return one
    lows, highs = [value for value in (one[0], other[0]) if value is not None], (one[2], other[2])
    mean = (one[1] * weight + other[1] * other_weight) / (weight + other_weight)
    return min(lows), mean, max(value for value in highs if value is not None)
