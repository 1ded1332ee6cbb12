"""The newest samples, one row each: written in batches, read until they are sealed into chunks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import BigInteger, bindparam, case, insert, type_coerce
from sqlmodel import Session, col, func, select

from sitrepd.clock import utc_now
from sitrepd.hardware.gpus import THROTTLING
from sitrepd.hardware.gpus import GpuSample as Reading
from sitrepd.hardware.grid import Columns, Grid
from sitrepd.hardware.models import GpuChunk, GpuSample
from sitrepd.hardware.quantities import KINDS, REASONS

# A clock that was set back comes to the same moments again; what was read first stays.
_INSERT = insert(GpuSample).prefix_with("OR IGNORE")
_AHEAD = timedelta(minutes=1)
AT: Any = type_coerce(col(GpuSample.at), BigInteger)


def rows(host_id: int, at: datetime, readings: Iterable[Reading]) -> list[dict[str, Any]]:
    """One a GPU that could be read; no row is a gap."""
    return [
        {
            "host_id": host_id,
            "gpu": reading.index,
            "at": at,
            "utilization": reading.utilization_percent,
            "memory_utilization": reading.memory_utilization_percent,
            "clock_reasons": reading.clock_reasons_mask,
            **{name: getattr(reading, name) for name in _AS_NAMED},
        }
        for reading in readings
        if reading.reason is None
    ]


_AS_NAMED = tuple(name for name in KINDS if name not in ("utilization", "memory_utilization", REASONS))


def add(db: Session, batch: Sequence[dict[str, Any]]) -> None:
    db.connection().execute(_INSERT, batch)


def latest(db: Session, host_id: int, gpu: int) -> GpuSample | None:
    """There is always one of a GPU that was ever sampled: the newest row is not sealed.

    What a clock that was ahead has left in the future is the latest only where there is nothing else.
    """
    mine = select(GpuSample).where(GpuSample.host_id == host_id, GpuSample.gpu == gpu)
    mine = mine.order_by(col(GpuSample.at).desc()).limit(1)
    return db.exec(mine.where(col(GpuSample.at) <= utc_now() + _AHEAD)).first() or db.exec(mine).first()


def known_gpus(db: Session, host_id: int) -> list[int]:
    """Indexes that samples may have, each found by a step through the primary key."""
    return sorted({*_gpus(db, GpuSample, host_id), *_gpus(db, GpuChunk, host_id)})


def _gpus(db: Session, table: type[GpuSample] | type[GpuChunk], host_id: int) -> list[int]:
    host, found, last = table.host_id == host_id, [], -1
    while (gpu := db.exec(select(func.min(table.gpu)).where(host, col(table.gpu) > last)).one()) is not None:
        found.append(gpu)
        last = gpu
    return found


def buckets(db: Session, host_id: int, gpu: int, grid: Grid, names: Sequence[str]) -> Columns:
    told = {"host": host_id, "gpu": gpu, "since": grid.since, "until": grid.until}
    rows = db.connection().execute(_statement(tuple(names)), told | {"points": grid.points}).all()
    numbers, samples, throttled, *figures = zip(*rows, strict=True) if rows else [()] * (3 + 3 * len(names))
    curves = {
        name: (list(figures[3 * n]), list(figures[3 * n + 1]), list(figures[3 * n + 2])) for n, name in enumerate(names)
    }
    return Columns(list(numbers), list(samples), list(throttled), [0.0] * len(numbers), curves)


def values(db: Session, host_id: int, gpu: int, name: str, since: int, until: int) -> list[float]:
    told = {"host": host_id, "gpu": gpu, "since": since, "until": until}
    return [float(value) for value in db.connection().execute(_of_metric(name), told).scalars()]


def times(db: Session, host_id: int, gpu: int, since: int, until: int) -> list[int]:
    told = {"host": host_id, "gpu": gpu, "since": since, "until": until}
    return list(db.connection().execute(_of_times(), told).scalars())


def masks(db: Session, host_id: int, gpu: int, since: int, until: int) -> list[tuple[int | None, int]]:
    """(why the clocks were not higher, in how many samples)"""
    told = {"host": host_id, "gpu": gpu, "since": since, "until": until}
    return [(why, count) for why, count in db.connection().execute(_of_reasons(), told)]


# Statements are made once: putting one together takes longer than the database does to answer it.


@cache
def _statement(names: tuple[str, ...]) -> Any:
    since, until, points = (_number(name) for name in ("since", "until", "points"))
    number = ((AT - since) * points // (until - since)).label("number")
    held = case((col(GpuSample.clock_reasons).bitwise_and(THROTTLING) > 0, 1))
    figures = [f(_column(name)) for name in names for f in (func.min, func.avg, func.max)]
    return _within(select(number, func.count(), func.count(held), *figures)).group_by(number).order_by(number)


@cache
def _of_metric(name: str) -> Any:
    return _within(select(_column(name)).where(_column(name).is_not(None)))


@cache
def _of_times() -> Any:
    return _within(select(AT)).order_by(AT)


@cache
def _of_reasons() -> Any:
    why = col(GpuSample.clock_reasons)
    return _within(select(why, func.count())).group_by(why)


def _within(query: Any) -> Any:
    mine = (col(GpuSample.host_id) == _number("host"), col(GpuSample.gpu) == _number("gpu"))
    return query.where(*mine, _number("since") <= AT, _number("until") > AT)


def _number(name: str) -> Any:
    return bindparam(name, type_=BigInteger)


def _column(name: str) -> Any:
    return col(getattr(GpuSample, name))
