"""Samples that lie in chunks, read: by the second while those are kept, by the minute or hour before."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter, mul
from typing import cast

from sqlalchemy import bindparam
from sqlmodel import Session, col, func, select

from sitrepd.hardware.blocks import Column, unpack_samples, unpack_strip
from sitrepd.hardware.gpus import THROTTLING
from sitrepd.hardware.grid import Columns, Curve, Figures, Grid, Runs
from sitrepd.hardware.models import GpuChunk
from sitrepd.hardware.quantities import HOURS, KINDS, MINUTES, RAW, REASONS

# No chunk reaches further than so much: what may lie in a time is then found by where chunks start.
RAW_SPAN_MS = 6 * 3600 * 1000
PERIODS_A_CHUNK = 360
_MOST_CHUNKS = 16
_TIERS = (RAW, MINUTES, HOURS)
# Made once: putting a statement together takes longer than the database does to answer it.
_MINE = (
    col(GpuChunk.host_id) == bindparam("host"),
    col(GpuChunk.gpu) == bindparam("gpu"),
    col(GpuChunk.tier) == bindparam("tier"),
)
_OLDEST = select(func.min(GpuChunk.start)).where(*_MINE)
_PIECES = (
    select(GpuChunk.start, GpuChunk.payload)
    .where(*_MINE, col(GpuChunk.start) > bindparam("from"), col(GpuChunk.start) < bindparam("until"))
    .where(col(GpuChunk.end) >= bindparam("since"))
    .order_by(col(GpuChunk.start), col(GpuChunk.part))
)


# Lows, means, highs, and of how many samples each is.
Told = tuple[list[float], list[float], list[float], list[int]]


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

    def told(self, name: str) -> Told:
        """(lows, means, highs, samples) of the values that there are, in the metric's own unit."""
        low, mean, high = self.figures[name]
        scale, mean_scale = self.scales(name)
        if None not in low:
            lows, means, highs = cast(tuple[list[int], list[int], list[int]], (low, mean, high))
            return (
                [value / scale for value in lows],
                [value / mean_scale for value in means],
                [value / scale for value in highs],
                self.samples,
            )
        there = [place for place, value in enumerate(low) if value is not None]
        return (
            [(low[place] or 0) / scale for place in there],
            [(mean[place] or 0) / mean_scale for place in there],
            [(high[place] or 0) / scale for place in there],
            [self.samples[place] for place in there],
        )

    def buckets(self, grid: Grid) -> Columns:
        runs = grid.runs(self.at_ms)
        samples = runs.sums(self.samples)
        return Columns(
            [*runs.numbers],
            samples,
            runs.sums(self.throttled) if any(self.throttled) else [0] * len(samples),
            [float(self.step_s)] * len(samples),
            {name: self._curve(name, runs, samples) for name in self.figures},
        )

    def _curve(self, name: str, runs: Runs, samples: Sequence[int]) -> Curve:
        low, mean, high = self.figures[name]
        scale, mean_scale = self.scales(name)
        if None in low:
            return _columns([self._sparse(name, start, end) for start, end in zip(runs.starts, runs.ends, strict=True)])
        lows, means, highs = cast(tuple[list[int], list[int], list[int]], (low, mean, high))
        sums = runs.sums(map(mul, means, self.samples))
        return (
            [value / scale for value in map(_least, map(lows.__getitem__, runs.slices))],
            [total / count / mean_scale for total, count in zip(sums, samples, strict=True)],
            [value / scale for value in map(_most, map(highs.__getitem__, runs.slices))],
        )

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


_least: Callable[[list[int]], int] = min
_most: Callable[[list[int]], int] = max


def _columns(rows: Sequence[Figures]) -> Curve:
    low, mean, high = ([*column] for column in zip(*rows, strict=True))
    return low, mean, high


def tier_for(step_ms: float) -> int:
    """The coarsest that has a value for each step."""
    return HOURS if step_ms >= 1000 * HOURS else MINUTES if step_ms >= 1000 * MINUTES else RAW


def levels(
    db: Session, host_id: int, gpu: int, since: int, until: int, tier: int, names: Collection[str]
) -> list[Level]:
    """What is kept of the time, the oldest first; what is too old for the tier comes from the next coarser one.

    Of that no period is taken that reaches into what the finer one has. What held the clocks is known where REASONS
    are among the names.
    """
    found: list[Level] = []
    for step_s in _TIERS[_TIERS.index(tier) :]:
        if since >= until:
            break
        level = Level(step_s, figures={name: ([], [], []) for name in names if name != REASONS})
        chunks = _chunks(db, host_id, gpu, step_s, since, until)
        for _, payload in chunks:
            _add(level, payload, since, until if step_s == tier else until - 1000 * step_s + 1, names)
        _put_in_order(level)
        found.insert(0, level)
        if chunks and chunks[0][0] <= since:
            break
        oldest = _oldest(db, host_id, gpu, step_s)
        until = until if oldest is None else min(until, oldest)
    return [level for level in found if level.at_ms]


def some_of(
    db: Session, host_id: int, gpu: int, since: int, until: int, names: Sequence[str]
) -> dict[str, list[float]]:
    """Samples of a long time from chunks evenly spread over it; none where those of most of it are no longer kept."""
    chunks = _chunks(db, host_id, gpu, RAW, since, until)
    if not chunks or chunks[0][0] - since > (until - since) / 2:
        return {}
    level = Level(RAW, figures={name: ([], [], []) for name in names})
    for place in range(0, len(chunks), max(1, -(-len(chunks) // _MOST_CHUNKS))):
        _add(level, chunks[place][1], since, until, names)
    return {name: level.told(name)[1] for name in names}


def stored(db: Session, host_id: int, gpu: int, tier: int, start: int) -> bytes | None:
    """The chunk that starts there, if there is one."""
    found = _chunks(db, host_id, gpu, tier, start, start + 1)
    return found[-1][1] if found and found[-1][0] == start else None


def _chunks(db: Session, host_id: int, gpu: int, tier: int, since: int, until: int) -> list[tuple[int, bytes]]:
    """(start, payload), in order"""
    span_ms = RAW_SPAN_MS if tier == RAW else 1000 * tier * PERIODS_A_CHUNK
    told = {"host": host_id, "gpu": gpu, "tier": tier, "from": since - span_ms, "since": since, "until": until}
    pieces = db.connection().execute(_PIECES, told).all()
    return [(start, b"".join([piece for _, piece in group])) for start, group in groupby(pieces, itemgetter(0))]


def _oldest(db: Session, host_id: int, gpu: int, tier: int) -> int | None:
    oldest: int | None = db.connection().execute(_OLDEST, {"host": host_id, "gpu": gpu, "tier": tier}).scalar_one()
    return oldest


def _add(level: Level, payload: bytes, since: int, until: int, names: Collection[str]) -> None:
    if level.step_s == RAW:
        samples = unpack_samples(payload, names)
        told = samples.values.pop(REASONS, None) or [None] * len(samples.at_ms)
        masks = [(mask or 0) & THROTTLING for mask in told]
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
    if level.at_ms == sorted(level.at_ms):
        return
    places = sorted(range(len(level.at_ms)), key=level.at_ms.__getitem__)
    for name in ("at_ms", "samples", "throttled", "reasons"):
        setattr(level, name, [getattr(level, name)[place] for place in places])
    for name, columns in level.figures.items():
        low, mean, high = ([column[place] for place in places] for column in columns)
        level.figures[name] = (low, mean, high)
