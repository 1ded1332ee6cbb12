"""Buckets of equal length over a time, and what falls into them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

Figures = tuple[float | None, float | None, float | None]


@dataclass(frozen=True, slots=True)
class Bucket:
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

    def runs(self, at_ms: Sequence[int]) -> Iterator[tuple[int, int, int]]:
        """(bucket, first, end) of what lies in each, for times in order; what began before `since` is in the first."""
        length, points, start = self.until - self.since, self.points, 0
        end = bisect_left(at_ms, self.until)
        while start < end:
            number = max(0, (at_ms[start] - self.since) * points // length)
            next_ms = self.since - (-(number + 1) * length // points)
            stop = bisect_left(at_ms, next_ms, start + 1, end)
            yield number, start, stop
            start = stop


def together(parts: Sequence[Sequence[Bucket]]) -> list[Bucket]:
    """Buckets of several parts of the time; where two meet in one bucket, means weigh as many samples as they have."""
    found = [part for part in parts if part]
    if len(found) < 2:
        return list(found[0]) if found else []
    merged: dict[int, Bucket] = {}
    for part in found:
        for bucket in part:
            before = merged.get(bucket.number)
            merged[bucket.number] = bucket if before is None else _merged(before, bucket)
    return [merged[number] for number in sorted(merged)]


def _merged(one: Bucket, other: Bucket) -> Bucket:
    mine, theirs = one.values or {}, other.values or {}
    values = {
        name: _figures(mine.get(name), one.samples, theirs.get(name), other.samples) for name in {**mine, **theirs}
    }
    span_s = max(one.span_s, other.span_s)
    return Bucket(one.number, one.samples + other.samples, one.throttled + other.throttled, values, span_s)


def _figures(one: Figures | None, weight: int, other: Figures | None, other_weight: int) -> Figures:
    if one is None or one[1] is None:
        return other or (None, None, None)
    if other is None or other[1] is None:
        return one
    mean = (one[1] * weight + other[1] * other_weight) / (weight + other_weight)
    assert one[0] is not None
    assert one[2] is not None
    assert other[0] is not None
    assert other[2] is not None
    return min(one[0], other[0]), mean, max(one[2], other[2])
