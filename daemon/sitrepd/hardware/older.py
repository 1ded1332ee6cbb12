"""Samples that lie in chunks, read: by the second while those are kept, by the minute or hour before."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import mul

from sqlmodel import Session, col, func, select

from sitrepd.hardware.blocks import Column, unpack_samples, unpack_strip
from sitrepd.hardware.gpus import THROTTLING
from sitrepd.hardware.grid import Bucket, Figures, Grid
from sitrepd.hardware.models import GpuChunk
from sitrepd.hardware.quantities import HOURS, KINDS, MINUTES, RAW, REASONS

# No chunk reaches further than so much: what may lie in a time is then found by where chunks start.
RAW_SPAN_MS = 6 * 3600 * 1000
PERIODS_A_CHUNK = 360
_TIERS = (RAW, MINUTES, HOURS)


@dataclass(slots=True)
class Level:
    """Consecutive values of one resolution: samples, or periods of `step_s`; figures are whole (see Metric)."""

    step_s: int
    at_ms: list[int] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)
    throttled: list[int] = field(default_factory=list)
    reasons: list[int] = field(default_factory=list)
    figures: dict[str, tuple[Column, Column, Column]] = field(default_factory=dict)

    def scales(self, name: str) -> tuple[int, int]:
        """What lows and highs are divided by, and means."""
        kind = KINDS[name]
        return kind.scale, kind.scale * (1 if self.step_s == RAW else kind.finer)

    def told(self, name: str) -> tuple[list[float], list[float], list[float], list[int]]:
        """(lows, means, highs, samples) of the values that there are, in the metric's own unit."""
        low, mean, high = self.figures[name]
        scale, mean_scale = self.scales(name)
        there = [place for place, value in enumerate(low) if value is not None]
        return (
            [(low[place] or 0) / scale for place in there],
            [(mean[place] or 0) / mean_scale for place in there],
            [(high[place] or 0) / scale for place in there],
            [self.samples[place] for place in there],
        )

    def buckets(self, grid: Grid) -> list[Bucket]:
        runs = list(grid.runs(self.at_ms))
        columns = {name: self._column(name, runs) for name in self.figures}
        samples, throttled = (list(accumulate(column, initial=0)) for column in (self.samples, self.throttled))
        found = []
        for place, (number, start, end) in enumerate(runs):
            values = {name: column[place] for name, column in columns.items()}
            held = throttled[end] - throttled[start]
            found.append(Bucket(number, samples[end] - samples[start], held, values, self.step_s))
        return found

    def _column(self, name: str, runs: Sequence[tuple[int, int, int]]) -> list[Figures]:
        low, mean, high = self.figures[name]
        scale, mean_scale = self.scales(name)
        if None in low:
            return [self._sparse(name, start, end) for _, start, end in runs]
        sums = list(accumulate(map(mul, mean, self.samples), initial=0))
        counts = list(accumulate(self.samples, initial=0))
        return [
            (
                min(low[start:end]) / scale,  # type: ignore[type-var, operator]
                (sums[end] - sums[start]) / (counts[end] - counts[start]) / mean_scale,
                max(high[start:end]) / scale,  # type: ignore[type-var, operator]
            )
            for _, start, end in runs
        ]

    def _sparse(self, name: str, start: int, end: int) -> Figures:
        low, mean, high = self.figures[name]
        scale, mean_scale = self.scales(name)
        there = [place for place in range(start, end) if low[place] is not None]
        if not there:
            return None, None, None
        total = sum((mean[place] or 0) * self.samples[place] for place in there)
        return (
            min(low[place] or 0 for place in there) / scale,
            total / sum(self.samples[place] for place in there) / mean_scale,
            max(high[place] or 0 for place in there) / scale,
        )


def tier_for(step_ms: float) -> int:
    """The coarsest that has a value for each step."""
    return HOURS if step_ms >= 1000 * HOURS else MINUTES if step_ms >= 1000 * MINUTES else RAW


def levels(
    db: Session, host_id: int, gpu: int, since: int, until: int, tier: int, names: Collection[str]
) -> list[Level]:
    """What is kept of the time, the oldest first; what is too old for the tier comes from the next coarser one.

    Of that no period is taken that reaches into what the finer one has.
    """
    found: list[Level] = []
    for step_s in _TIERS[_TIERS.index(tier) :]:
        if since >= until:
            break
        level = Level(step_s, figures={name: ([], [], []) for name in names})
        for payload in _payloads(db, host_id, gpu, step_s, since, until):
            _add(level, payload, since, until if step_s == tier else until - 1000 * step_s + 1, names)
        _put_in_order(level)
        found.insert(0, level)
        oldest = _oldest(db, host_id, gpu, step_s)
        until = until if oldest is None else min(until, oldest)
    return [level for level in found if level.at_ms]


def _payloads(db: Session, host_id: int, gpu: int, tier: int, since: int, until: int) -> Iterator[bytes]:
    span_ms = RAW_SPAN_MS if tier == RAW else 1000 * tier * PERIODS_A_CHUNK
    query = (
        select(GpuChunk.payload)
        .where(GpuChunk.host_id == host_id, GpuChunk.gpu == gpu, GpuChunk.tier == tier)
        .where(col(GpuChunk.start) > since - span_ms, col(GpuChunk.start) < until, col(GpuChunk.end) >= since)
        .order_by(col(GpuChunk.start))
    )
    yield from db.exec(query).all()


def _oldest(db: Session, host_id: int, gpu: int, tier: int) -> int | None:
    mine = (GpuChunk.host_id == host_id, GpuChunk.gpu == gpu, GpuChunk.tier == tier)
    return db.exec(select(func.min(GpuChunk.start)).where(*mine)).one()


def _add(level: Level, payload: bytes, since: int, until: int, names: Collection[str]) -> None:
    if level.step_s == RAW:
        samples = unpack_samples(payload, {*names, REASONS})
        masks = [(mask or 0) & THROTTLING for mask in samples.values.pop(REASONS)]
        figures = {name: (column, column, column) for name, column in samples.values.items()}
        _extend(level, samples.at_ms, [1] * len(masks), [int(mask > 0) for mask in masks], masks, figures, since, until)
        return
    strip, step_ms = unpack_strip(payload, names), 1000 * level.step_s
    at_ms = [number * step_ms for number in strip.numbers]
    # A period that began before is part of the time.
    _extend(level, at_ms, strip.samples, strip.throttled, strip.reasons, strip.figures, since - step_ms + 1, until)


def _extend(
    level: Level,
    at_ms: Sequence[int],
    samples: Sequence[int],
    throttled: Sequence[int],
    reasons: Sequence[int],
    figures: dict[str, tuple[Column, Column, Column]],
    since: int,
    until: int,
) -> None:
    part = slice(bisect_left(at_ms, since), bisect_left(at_ms, until))
    level.at_ms += at_ms[part]
    level.samples += samples[part]
    level.throttled += throttled[part]
    level.reasons += reasons[part]
    for name, columns in figures.items():
        for mine, more in zip(level.figures[name], columns, strict=True):
            mine += more[part]


def _put_in_order(level: Level) -> None:
    """A clock that was set back leaves samples behind that come before earlier ones."""
    order = range(len(level.at_ms))
    if all(level.at_ms[place] <= level.at_ms[place + 1] for place in order[:-1]):
        return
    places = sorted(order, key=level.at_ms.__getitem__)
    for name in ("at_ms", "samples", "throttled", "reasons"):
        setattr(level, name, [getattr(level, name)[place] for place in places])
    for name, columns in level.figures.items():
        low, mean, high = ([column[place] for place in places] for column in columns)
        level.figures[name] = (low, mean, high)
