"""Samples of the GPUs over time, read: the newest are rows, older ones lie in chunks that get coarser with age."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from math import floor
from operator import mul, sub
from statistics import median

from sqlmodel import Session

from sitrepd.hardware import newest
from sitrepd.hardware.gpus import THROTTLING, clock_reason_words
from sitrepd.hardware.grid import Columns, Grid, together
from sitrepd.hardware.newest import known_gpus, latest
from sitrepd.hardware.older import Level, Told, levels, some_of, tier_for
from sitrepd.hardware.quantities import HOURS, MINUTES, RAW, REASONS
from sitrepd.storage.types import to_ms

__all__ = [
    "Columns", "Summary", "columns", "known_gpus", "latest", "sampled_s", "summaries", "summary", "throttled_share",
    "throttling",
]  # fmt: skip

# A longer time is summed up from its minutes or hours, whose means would not do for percentiles.
_RAW_AT_MOST_MS, _MINUTES_AT_MOST_MS = 4 * 3600 * 1000, 4 * 86_400 * 1000
# So long a sample stands for the time around it, of a machine that is sampled no more seldom.
_STANDS_MS, _STANDS_SAMPLES = 30_000, 2.5
_PERCENTILES = (5, 50, 95, 99)


@dataclass(frozen=True, slots=True)
class Summary:
    """Of one metric over a time; percentiles are those of the samples.

    Of more than four hours they are those of a part of the samples, evenly spread; where samples are no longer kept, of
    the means of minutes or hours. A time of more than four days begins and ends with whole hours.
    """

    samples: int
    min: float
    mean: float
    max: float
    p5: float
    p50: float
    p95: float
    p99: float


def columns(
    db: Session, host_id: int, gpu: int, since: datetime, until: datetime, points: int, metrics: Sequence[str]
) -> Columns:
    """Buckets that hold samples, at most `points`; how often clocks were held where REASONS are among the metrics."""
    names = [name for name in metrics if name != REASONS]
    grid = Grid(to_ms(since), to_ms(until), points)
    found = levels(db, host_id, gpu, grid.since, grid.until, tier_for(grid.step_ms), metrics)
    parts = [*(level.buckets(grid) for level in found), newest.buckets(db, host_id, gpu, grid, names)]
    return together(parts, names)


def summary(db: Session, host_id: int, gpu: int, metric: str, since: datetime, until: datetime) -> Summary | None:
    """None where the metric has no samples in that time."""
    return summaries(db, host_id, gpu, (metric,), since, until).get(metric)


def summaries(
    db: Session, host_id: int, gpu: int, metrics: Sequence[str], since: datetime, until: datetime
) -> dict[str, Summary]:
    """By metric, of those that have samples in that time: what is stored is read once for all."""
    start, end = to_ms(since), to_ms(until)
    found = _levels(db, host_id, gpu, since, until, metrics)
    some = some_of(db, host_id, gpu, start, end, metrics) if end - start > _RAW_AT_MOST_MS else {}
    told = {}
    for name in metrics:
        now = newest.values(db, host_id, gpu, name, start, end)
        one = _summary([*(level.told(name) for level in found), (now, now, now, [1] * len(now))], some.get(name))
        if one is not None:
            told[name] = one
    return told


def _summary(parts: Sequence[Told], some: Sequence[float] | None) -> Summary | None:
    lows, means, highs, weights = (list(chain.from_iterable(columns)) for columns in zip(*parts, strict=True))
    if not means:
        return None
    mean = sum(map(mul, means, weights)) / sum(weights)
    return Summary(round(sum(weights)), min(lows), mean, max(highs), *_percentiles(some or means))


def sampled_s(db: Session, host_id: int, gpu: int, since: datetime, until: datetime) -> float:
    """How much of the time is known: what the daemon did not see is none of it."""
    start, end, known = to_ms(since), to_ms(until), 0.0
    at_ms: list[int] = []
    for level in _levels(db, host_id, gpu, since, until, ()):
        if level.step_s == RAW:
            at_ms += level.at_ms
            continue
        step_ms = 1000 * level.step_s
        known += sum(min(at + step_ms, end) - max(at, start) for at in level.at_ms)
        start = max(start, level.at_ms[-1] + step_ms)
    at_ms = sorted(at for at in (*at_ms, *newest.times(db, host_id, gpu, start, end)) if at >= start)
    if at_ms:
        steps = [*map(sub, at_ms[1:], at_ms)]
        most = max(_STANDS_MS, _STANDS_SAMPLES * median(steps) if steps else 0)
        known += sum(min(step, most) for step in (at_ms[0] - start, *steps, end - at_ms[-1]))
    return known / 1000


def throttling(db: Session, host_id: int, gpu: int, since: datetime, until: datetime) -> dict[str, int]:
    """Samples by what held the clocks down."""
    return {", ".join(clock_reason_words(mask)): count for mask, count in _masks(db, host_id, gpu, since, until)[1]}


def throttled_share(db: Session, host_id: int, gpu: int, since: datetime, until: datetime) -> float | None:
    """Part of the samples in which power, heat or a fault held the clocks down; None without samples."""
    samples, held = _masks(db, host_id, gpu, since, until)
    return sum(count for _, count in held) / samples if samples else None


def _masks(db: Session, host_id: int, gpu: int, since: datetime, until: datetime) -> tuple[int, list[tuple[int, int]]]:
    """(samples, [(what held the clocks, in how many of them)]), the most frequent first."""
    counts: Counter[int] = Counter()
    samples = 0
    for level in _levels(db, host_id, gpu, since, until, (REASONS,)):
        samples += sum(level.samples)
        for mask, held in zip(level.reasons, level.throttled, strict=True):
            counts[mask] += held
    for why, count in newest.masks(db, host_id, gpu, to_ms(since), to_ms(until)):
        samples += count
        counts[(why or 0) & THROTTLING] += count
    counts.pop(0, None)
    return samples, [(mask, count) for mask, count in counts.most_common() if count]


def _levels(
    db: Session, host_id: int, gpu: int, since: datetime, until: datetime, names: Collection[str]
) -> list[Level]:
    start, end = to_ms(since), to_ms(until)
    length = end - start
    tier = RAW if length <= _RAW_AT_MOST_MS else MINUTES if length <= _MINUTES_AT_MOST_MS else HOURS
    return levels(db, host_id, gpu, start, end, tier, names)


def _percentiles(values: Sequence[float]) -> list[float]:
    """Between the two nearest, as most tools do."""
    ordered, told = sorted(values), []
    for share in _PERCENTILES:
        place = share / 100 * (len(ordered) - 1)
        below = floor(place)
        above = min(below + 1, len(ordered) - 1)
        told.append(ordered[below] + (place - below) * (ordered[above] - ordered[below]))
    return told
