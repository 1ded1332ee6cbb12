"""Rows of samples become chunks, with their minutes and hours summed up; chunks that are too old are dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, insert
from sqlmodel import Session, col, func, select

from sitrepd.hardware import blocks
from sitrepd.hardware.blocks import TIME_MS, Periods, Samples
from sitrepd.hardware.models import GpuChunk, GpuSample
from sitrepd.hardware.newest import AT, known_gpus
from sitrepd.hardware.older import PERIODS_A_CHUNK, RAW_SPAN_MS
from sitrepd.hardware.quantities import HOURS, KINDS, MINUTES, RAW
from sitrepd.storage.types import to_ms

# So many rows stay as they are, and so many more are worth a chunk.
_STAY = 300
_WORTH = 900
_MOST = 3600
# A GPU that is sampled no more, or seldom, has its rows sealed by age.
_OLD_MS = RAW_SPAN_MS
_DROPPED_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Sealed:
    """Rows of one GPU up to `through` as chunks, each the values of its columns."""

    host_id: int
    gpu: int
    through: int
    chunks: Sequence[dict[str, Any]]


def due(db: Session, host_id: int, now: datetime) -> list[tuple[int, int]]:
    """(GPU, how many rows to seal)"""
    found = []
    for gpu in known_gpus(db, host_id):
        mine = (GpuSample.host_id == host_id, GpuSample.gpu == gpu)
        count, oldest = db.exec(select(func.count(), func.min(AT)).where(*mine)).one()
        if count >= _STAY + _WORTH:
            found.append((gpu, min(count - _STAY, _MOST)))
        elif count > 1 and oldest < to_ms(now) - _OLD_MS:
            found.append((gpu, count - 1))
    return found


def seal(db: Session, host_id: int, gpu: int, most: int) -> Sealed | None:
    """Reads and reckons, and changes nothing; about 30 ms."""
    samples, through = _oldest_rows(db, host_id, gpu, most)
    if not samples.at_ms:
        return None
    raw = {"tier": RAW, "start": samples.at_ms[0], "end": samples.at_ms[-1], "count": len(samples.at_ms)}
    chunks = [raw | {"payload": blocks.pack_samples(samples)}]
    for tier in (MINUTES, HOURS):
        chunks += _with_stored(db, host_id, gpu, tier, blocks.fold(samples, tier))
    return Sealed(host_id, gpu, through, [{"host_id": host_id, "gpu": gpu, **chunk} for chunk in chunks])


def write(db: Session, sealed: Sealed) -> None:
    """In one transaction: each sample is in a row or in a chunk, never in both."""
    for chunk in sealed.chunks:
        _delete(db, *(chunk[name] for name in ("host_id", "gpu", "tier", "start")))
    db.connection().execute(insert(GpuChunk), list(sealed.chunks))
    mine = (col(GpuSample.host_id) == sealed.host_id, col(GpuSample.gpu) == sealed.gpu)
    db.exec(delete(GpuSample).where(*mine, sealed.through >= AT))


def drop(db: Session, tier: int, before: datetime) -> int:
    """Chunks that ended before, a few at once; how many those were."""
    keys = db.exec(
        select(GpuChunk.host_id, GpuChunk.gpu, GpuChunk.start)
        .where(GpuChunk.tier == tier, col(GpuChunk.end) < to_ms(before))
        .limit(_DROPPED_AT_ONCE)
    ).all()
    for host_id, gpu, start in keys:
        _delete(db, host_id, gpu, tier, start)
    return len(keys)


def _delete(db: Session, host_id: int, gpu: int, tier: int, start: int) -> None:
    key = (col(GpuChunk.host_id) == host_id, col(GpuChunk.gpu) == gpu)
    db.exec(delete(GpuChunk).where(*key, col(GpuChunk.tier) == tier, col(GpuChunk.start) == start))


def _oldest_rows(db: Session, host_id: int, gpu: int, most: int) -> tuple[Samples, int]:
    """No further than a chunk may reach; and when the last of them was."""
    columns = [AT, *(col(getattr(GpuSample, name)) for name in KINDS)]
    query: Any = select(*columns).where(GpuSample.host_id == host_id, GpuSample.gpu == gpu)
    rows: Sequence[Sequence[Any]] = db.exec(query.order_by(AT).limit(most)).all()
    rows = [row for row in rows if row[0] - rows[0][0] < RAW_SPAN_MS]
    if not rows:
        return Samples(), 0
    at, *told = zip(*rows, strict=True)
    values = {name: _whole(column, KINDS[name].scale) for name, column in zip(KINDS, told, strict=True)}
    return Samples([ms // TIME_MS * TIME_MS for ms in at], values), at[-1]


def _whole(column: Sequence[float | None], scale: int) -> list[int | None]:
    return [None if value is None else round(value * scale) for value in column]


def _with_stored(db: Session, host_id: int, gpu: int, tier: int, periods: Periods) -> list[dict[str, Any]]:
    """The chunks that the periods belong to, with what these hold already."""
    chunks = []
    for place in sorted({number // PERIODS_A_CHUNK for number in periods}):
        mine = {number: period for number, period in periods.items() if number // PERIODS_A_CHUNK == place}
        start = place * PERIODS_A_CHUNK * tier * 1000
        stored = db.get(GpuChunk, (host_id, gpu, tier, start))
        if stored is not None:
            mine = blocks.merged(blocks.unpack_periods(stored.payload), mine)
        end = (max(mine) + 1) * tier * 1000 - 1
        payload = blocks.pack_periods(mine)
        chunks.append({"tier": tier, "start": start, "end": end, "count": len(mine), "payload": payload})
    return chunks
