"""GPU samples in the store: written in batches, read in buckets, deleted when they are old."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import insert
from sqlmodel import Session, col, delete, func, select

from sitrepd.hardware.gpus import GpuSample as Reading
from sitrepd.hardware.models import GpuSample, Host
from sitrepd.storage.functions import time_bucket

METRICS = ("utilization", "memory_used_bytes", "power_w", "temperature_c", "sm_clock_mhz")
_DELETED_AT_ONCE = timedelta(hours=6)


@dataclass(frozen=True, slots=True)
class Bucket:
    """`values` are (min, mean, max) by metric; a bucket without samples stands for a gap."""

    number: int
    samples: int = 0
    throttled: int = 0
    values: Mapping[str, tuple[float | None, float | None, float | None]] | None = None


def rows(host_id: int, at: datetime, readings: Iterable[Reading]) -> list[dict[str, Any]]:
    """One a GPU that could be read; no row is a gap."""
    return [
        {
            "host_id": host_id,
            "gpu": reading.index,
            "at": at,
            "utilization": reading.utilization_percent,
            "memory_used_bytes": reading.memory_used_bytes,
            "power_w": reading.power_w,
            "temperature_c": reading.temperature_c,
            "sm_clock_mhz": reading.sm_clock_mhz,
            "throttle": ", ".join(reading.throttle) or None,
        }
        for reading in readings
        if reading.reason is None
    ]


def add(db: Session, batch: Sequence[dict[str, Any]]) -> None:
    db.connection().execute(insert(GpuSample), batch)


def buckets(db: Session, host_id: int, gpu: int, since: datetime, until: datetime, points: int) -> list[Bucket]:
    """Those that hold samples, in order; at most `points`."""
    step_s = (until - since).total_seconds() / points
    number = time_bucket(col(GpuSample.at), since, step_s).label("number")
    figures: list[Any] = [f(col(getattr(GpuSample, name))) for name in METRICS for f in (func.min, func.avg, func.max)]
    query = (
        select(number, func.count(), func.count(col(GpuSample.throttle)), *figures)
        .where(GpuSample.host_id == host_id, GpuSample.gpu == gpu)
        .where(col(GpuSample.at) >= since, col(GpuSample.at) < until)
        .group_by(number)
        .order_by(number)
    )
    found = []
    answers: Sequence[Sequence[Any]] = db.exec(query).all()
    for at, samples, throttled, *told in answers:
        values: dict[str, Any] = {name: tuple(told[3 * n : 3 * n + 3]) for n, name in enumerate(METRICS)}
        found.append(Bucket(min(at, points - 1), samples, throttled, values))
    return found


def with_gaps(found: Sequence[Bucket], step_s: float, gap_s: float) -> list[Bucket]:
    """An empty bucket goes wherever more than `gap_s` passed without a sample, so that no line is drawn across."""
    told: list[Bucket] = []
    for bucket in found:
        if told and (bucket.number - told[-1].number) * step_s > max(gap_s, 1.5 * step_s):
            told.append(Bucket(told[-1].number + 1))
        told.append(bucket)
    return told


def throttling(db: Session, host_id: int, gpu: int, since: datetime, until: datetime) -> dict[str, int]:
    """Samples by what held the clocks down."""
    query = (
        select(GpuSample.throttle, func.count())
        .where(GpuSample.host_id == host_id, GpuSample.gpu == gpu, col(GpuSample.throttle).is_not(None))
        .where(col(GpuSample.at) >= since, col(GpuSample.at) < until)
        .group_by(col(GpuSample.throttle))
        .order_by(func.count().desc())
    )
    return {reason: count for reason, count in db.exec(query).all() if reason is not None}


def known_gpus(db: Session, host_id: int) -> list[int]:
    """Indexes that samples may have, each found by a step through the primary key."""
    host, found, last = GpuSample.host_id == host_id, [], -1
    while (gpu := db.exec(select(func.min(GpuSample.gpu)).where(host, col(GpuSample.gpu) > last)).one()) is not None:
        found.append(gpu)
        last = gpu
    return found


def oldest(db: Session, before: datetime) -> list[tuple[int, int, datetime]]:
    """(host, GPU, time of its oldest sample) where that is older than `before`."""
    found = []
    for host_id in db.exec(select(Host.id).where(col(Host.machine).is_not(None))).all():
        for gpu in known_gpus(db, host_id or 0):
            mine = select(func.min(GpuSample.at)).where(GpuSample.host_id == host_id, GpuSample.gpu == gpu)
            at: datetime | None = db.exec(mine).one()
            if at is not None and at < before:
                found.append((host_id or 0, gpu, at))
    return found


def forget(db: Session, host_id: int, gpu: int, start: datetime, before: datetime) -> None:
    """Deletes from the oldest sample on, a few hours at once: the writer has other things to do in between."""
    until = min(before, start + _DELETED_AT_ONCE)
    mine = (col(GpuSample.host_id) == host_id, col(GpuSample.gpu) == gpu, col(GpuSample.at) < until)
    db.exec(delete(GpuSample).where(*mine))
