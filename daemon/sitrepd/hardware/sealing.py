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
from sitrepd.hardware.models import GpuChunk, GpuSample, Host
from sitrepd.hardware.newest import AT, known_gpus
from sitrepd.hardware.older import PERIODS_A_CHUNK, RAW_SPAN_MS, stored
from sitrepd.hardware.quantities import HOURS, KINDS, MINUTES, RAW
from sitrepd.storage.types import to_ms

# So many rows stay as they are, and so many more are worth a chunk.
_STAY = 300
WORTH = 900
_MOST = 3600
# A GPU that is sampled no more, or seldom, has its rows sealed by age.
_OLD_MS = RAW_SPAN_MS
_DROPPED_AT_ONCE = 200
# Eight of these fill a page of the database; what does not fit one takes pages of its own.
_PIECE_BYTES = 480


@dataclass(frozen=True, slots=True)
class Chunk:
    tier: int
    start: int
    end: int
    count: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Sealed:
    """Rows of one GPU up to `through` as chunks."""

    host_id: int
    gpu: int
    through: int
    chunks: Sequence[Chunk]


def due(db: Session, host_id: int, now: datetime) -> list[tuple[int, int]]:
    """(GPU, how many rows to seal)"""
    found = []
    for gpu in known_gpus(db, host_id):
        mine = (GpuSample.host_id == host_id, GpuSample.gpu == gpu)
        count, oldest = db.exec(select(func.count(), func.min(AT)).where(*mine)).one()
        if count >= _STAY + WORTH:
            found.append((gpu, min(count - _STAY, _MOST)))
        elif count > 1 and oldest < to_ms(now) - _OLD_MS:
            found.append((gpu, count - 1))
    return found


def seal(db: Session, host_id: int, gpu: int, most: int) -> Sealed | None:
    """Reads and reckons, and changes nothing; about 30 ms."""
    samples, through = _oldest_rows(db, host_id, gpu, most)
    if not samples.at_ms:
        return None
    first = samples.at_ms[0]
    before = stored(db, host_id, gpu, RAW, first)
    whole = samples if before is None else blocks.joined(blocks.unpack_samples(before, KINDS), samples)
    chunks = [Chunk(RAW, first, max(whole.at_ms), len(whole.at_ms), blocks.pack_samples(whole))]
    for tier in (MINUTES, HOURS):
        chunks += _with_stored(db, host_id, gpu, tier, blocks.fold(samples, tier))
    return Sealed(host_id, gpu, through, chunks)


def write(db: Session, sealed: Sealed) -> None:
    """In one transaction: each sample is in a row or in a chunk, never in both."""
    for chunk in sealed.chunks:
        put(db, sealed.host_id, sealed.gpu, chunk)
    mine = (col(GpuSample.host_id) == sealed.host_id, col(GpuSample.gpu) == sealed.gpu)
    db.exec(delete(GpuSample).where(*mine, sealed.through >= AT))


def put(db: Session, host_id: int, gpu: int, chunk: Chunk) -> None:
    """In the place of the one that starts at the same time, if there is one."""
    _delete(db, host_id, gpu, chunk.tier, chunk.start)
    shared = {"host_id": host_id, "gpu": gpu, "tier": chunk.tier, "start": chunk.start, "end": chunk.end}
    pieces = [chunk.payload[at : at + _PIECE_BYTES] for at in range(0, len(chunk.payload), _PIECE_BYTES)]
    rows = [shared | {"count": chunk.count, "part": part, "payload": piece} for part, piece in enumerate(pieces)]
    db.connection().execute(insert(GpuChunk), rows)


def drop(db: Session, tier: int, before: datetime) -> int:
    """Chunks that ended before, a few at once; how many those were."""
    dropped = 0
    for host_id in db.exec(select(Host.id)).all():
        for gpu in known_gpus(db, host_id or 0):
            mine = (GpuChunk.host_id == host_id, GpuChunk.gpu == gpu, GpuChunk.tier == tier)
            old = (col(GpuChunk.start) < to_ms(before), col(GpuChunk.end) < to_ms(before), GpuChunk.part == 0)
            starts = db.exec(select(GpuChunk.start).where(*mine, *old).limit(_DROPPED_AT_ONCE - dropped)).all()
            for start in starts:
                _delete(db, host_id or 0, gpu, tier, start)
            dropped += len(starts)
    return dropped


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


def _with_stored(db: Session, host_id: int, gpu: int, tier: int, periods: Periods) -> list[Chunk]:
    """The chunks that the periods belong to, with what these hold already."""
    chunks = []
    for place in sorted({number // PERIODS_A_CHUNK for number in periods}):
        mine = {number: period for number, period in periods.items() if number // PERIODS_A_CHUNK == place}
        start = place * PERIODS_A_CHUNK * tier * 1000
        before = stored(db, host_id, gpu, tier, start)
        if before is not None:
            mine = blocks.merged(blocks.unpack_periods(before), mine)
        end = (max(mine) + 1) * tier * 1000 - 1
        chunks.append(Chunk(tier, start, end, len(mine), blocks.pack_periods(mine)))
    return chunks
