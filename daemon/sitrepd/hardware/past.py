"""What all GPUs did in the time up to now, in buckets that stay where they are while time goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from pydantic import BaseModel, Field
from sqlmodel import Session

from sitrepd.hardware import series
from sitrepd.hardware.bands import Band
from sitrepd.hardware.grid import Columns
from sitrepd.hardware.quantities import REASONS

CHARTED = ("utilization", "memory_used_bytes", "power_w", "sm_clock_mhz", "temperature_c")

# Lengths of a bucket: so each begins at a round time, and a page that asks again fetches the newest alone.
_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)
Column = list[float | None]


class GpuPast(BaseModel):
    """Columns as long as `at`, with the mean of each bucket; null in a gap."""

    index: int
    name: str | None = None
    metrics: dict[str, Column]
    throttled: Column = Field(description="Part of the samples in which the clocks were held down.")


class GpusPast(BaseModel):
    """Columns of all GPUs by the same times, and what ran meanwhile."""

    host: str
    since: datetime
    until: datetime
    bucket_s: int
    at: list[int] = Field(description="Start of each bucket, in seconds of Unix time; in a gap one without values.")
    gpus: list[GpuPast]
    bands: list[Band]


def step_s(length_s: float, points: int) -> int:
    return next((step for step in _STEPS_S if length_s / step <= points), _STEPS_S[-1])


def window(now: datetime, length_s: float, step: int, after: int | None) -> tuple[datetime, datetime]:
    """From the first whole bucket (or from `after`, where that is within) to the end of the present one."""
    last = int(now.timestamp()) // step * step + step
    first = last - (int(length_s) // step) * step
    if after is not None:
        first = min(max(first, after // step * step), last - step)
    return datetime.fromtimestamp(first, UTC), datetime.fromtimestamp(last, UTC)


def read(
    db: Session, host_id: int, gpus: Mapping[int, str | None], since: datetime, until: datetime, step: int, gap_s: float
) -> tuple[list[int], list[GpuPast]]:
    """The times, and the columns of each GPU."""
    points = round((until - since).total_seconds() / step)
    names = (*CHARTED, REASONS)
    found = {gpu: series.columns(db, host_id, gpu, since, until, points, names) for gpu in gpus}
    # One line of times for all: gaps are where none of them was sampled.
    spans: dict[int, float] = {}
    for one in found.values():
        spans |= zip(one.numbers, one.span_s, strict=True)
    line = sorted(spans)
    times = Columns(line, [0] * len(line), [0] * len(line), [spans[number] for number in line])
    places = times.with_gaps(step, gap_s).numbers
    start = int(since.timestamp())
    at = [start + place * step for place in places]
    return at, [_columns(gpu, name, found[gpu], places) for gpu, name in gpus.items()]


def _columns(gpu: int, name: str | None, found: Columns, places: Sequence[int]) -> GpuPast:
    shares = [held / samples for held, samples in zip(found.throttled, found.samples, strict=True)]
    metrics = {metric: _at(places, found.numbers, _rounded(found.curves[metric][1], 2)) for metric in CHARTED}
    return GpuPast(index=gpu, name=name, metrics=metrics, throttled=_at(places, found.numbers, _rounded(shares, 3)))


def _at(places: Sequence[int], numbers: Sequence[int], values: Column) -> Column:
    """What a GPU has at the times of all; null where it has none."""
    return values if places == numbers else [*map(dict(zip(numbers, values, strict=True)).get, places)]


def _rounded(values: Sequence[float | None], digits: int) -> Column:
    return [None if value is None else round(value, digits) for value in values]
