"""What all GPUs did in the time up to now, in buckets that stay where they are while time goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from pydantic import BaseModel, Field
from sqlmodel import Session

from sitrepd.hardware import series
from sitrepd.hardware.bands import Band

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
    found = {gpu: series.buckets(db, host_id, gpu, since, until, points, CHARTED) for gpu in gpus}
    # One line of times for all: gaps are where none of them was sampled.
    numbers: dict[int, series.Bucket] = {}
    for listed in found.values():
        numbers |= {bucket.number: bucket for bucket in listed}
    line = series.with_gaps([numbers[number] for number in sorted(numbers)], step, gap_s)
    start = int(since.timestamp())
    at = [start + bucket.number * step for bucket in line]
    places = [bucket.number for bucket in line]
    return at, [_columns(gpu, name, found[gpu], places) for gpu, name in gpus.items()]


def _columns(gpu: int, name: str | None, found: Sequence[series.Bucket], places: Sequence[int]) -> GpuPast:
    by_number = {bucket.number: bucket for bucket in found}
    metrics: dict[str, Column] = {metric: [] for metric in CHARTED}
    throttled: Column = []
    for place in places:
        bucket = by_number.get(place)
        values = (bucket.values if bucket else None) or {}
        for metric, column in metrics.items():
            mean = values.get(metric, (None, None, None))[1]
            column.append(None if mean is None else round(mean, 2))
        throttled.append(round(bucket.throttled / bucket.samples, 3) if bucket and bucket.samples else None)
    return GpuPast(index=gpu, name=name, metrics=metrics, throttled=throttled)
