"""Buckets of equal length over a time, and what falls into them, column by column."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import accumulate, count
from operator import sub
from typing import NamedTuple

Figures = tuple[float | None, float | None, float | None]
Curve = tuple[list[float | None], list[float | None], list[float | None]]


# So many times are worth remembering where they fall.
_FEW = 4096


class Runs(NamedTuple):
    """The buckets that hold any of a list of times, and the places there from and before which each lies."""

    numbers: list[int]
    starts: list[int]
    ends: list[int]
    slices: list[slice]

    def sums(self, column: Iterable[int]) -> list[int]:
        """Of each bucket."""
        so_far = [*accumulate(column, initial=0)].__getitem__
        return [*map(sub, map(so_far, self.ends), map(so_far, self.starts))]


@dataclass(frozen=True, slots=True)
class Grid:
    """From `since` to before `until`, both in milliseconds; the last bucket ends there exactly."""

    since: int
    until: int
    points: int

    @property
    def step_ms(self) -> float:
        return (self.until - self.since) / self.points

    def runs(self, at_ms: Sequence[int]) -> Runs:
        """Of the times, which are in order; what began before `since` is in the first bucket."""
        return _few(self, tuple(at_ms)) if len(at_ms) <= _FEW else _runs(self, at_ms)


def _runs(grid: Grid, at_ms: Sequence[int]) -> Runs:
    length, points = grid.until - grid.since, grid.points
    edges = [grid.since - (-number * length // points) for number in range(1, points + 1)]
    ends = [*map(partial(bisect_left, at_ms), edges)]
    found = [run for run in zip(count(), [0, *ends], ends, strict=False) if run[2] > run[1]]
    numbers, starts, ends = map(list, zip(*found, strict=True)) if found else ([], [], [])
    return Runs(numbers, starts, ends, [*map(slice, starts, ends)])


@lru_cache(maxsize=2)
def _few(grid: Grid, at_ms: tuple[int, ...]) -> Runs:
    """Minutes and hours of GPUs of one machine are mostly the same: what is found for one serves the others."""
    return _runs(grid, at_ms)


@dataclass(slots=True)
class Columns:
    """Buckets that hold samples, in order; `curves` are (min, mean, max) by metric.

    `span_s` is how long one of the stored values that a bucket is made of stands for.
    """

    numbers: list[int] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)
    throttled: list[int] = field(default_factory=list)
    span_s: list[float] = field(default_factory=list)
    curves: dict[str, Curve] = field(default_factory=dict)

    def with_gaps(self, step_s: float, gap_s: float) -> Columns:
        """An empty bucket goes wherever more than `gap_s` passed without a sample, so that no line is drawn across."""
        least, passed = max(gap_s, 1.5 * step_s), map(sub, self.numbers[1:], self.numbers)
        wide = [
            place
            for place, (steps, span_s) in enumerate(zip(passed, self.span_s, strict=False), 1)
            if steps * step_s > least and steps * step_s > 1.5 * span_s
        ]
        told = Columns([*self.numbers], [*self.samples], [*self.throttled], [*self.span_s])
        told.curves = {name: (list(low), list(mean), list(high)) for name, (low, mean, high) in self.curves.items()}
        for place in reversed(wide):
            told._insert(place, self.numbers[place - 1] + 1)
        return told

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
