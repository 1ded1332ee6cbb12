"""Buckets of samples as rows, which tests compare more easily than columns."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sqlmodel import Session

from sitrepd.hardware import series
from sitrepd.hardware.quantities import METRICS, REASONS


class Point(NamedTuple):
    """One bucket of one metric; `at` is its start."""

    number: int
    at: datetime
    min: float | None
    mean: float | None
    max: float | None
    samples: int


def asked(
    db: Session, gpu: int, since: datetime, until: datetime, points: int, metrics: Sequence[str] = METRICS
) -> series.Columns:
    """Of host 1, with what held the clocks."""
    return series.columns(db, 1, gpu, since, until, points, (*metrics, REASONS))


def range_of(db: Session, gpu: int, metric: str, since: datetime, until: datetime, points: int) -> list[Point]:
    """Where the metric was not told there is none."""
    found, step = asked(db, gpu, since, until, points, (metric,)), (until - since) / points
    rows = zip(found.numbers, *found.curves[metric], found.samples, strict=True)
    return [Point(number, since + number * step, *told) for number, *told in rows if told[1] is not None]
