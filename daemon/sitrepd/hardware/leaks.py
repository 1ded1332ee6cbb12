"""Memory of a GPU that is still held after the server that held it has ended."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlmodel import Session, col, select

from sitrepd.claims.models import Claim
from sitrepd.hardware import series
from sitrepd.hardware.anomalies import Anomaly
from sitrepd.hardware.gpus import GpuSample
from sitrepd.hardware.live import LiveHardware, Owned
from sitrepd.hardware.ranges import ranges
from sitrepd.launches.models import Launch
from sitrepd.storage import ids

_GIB = 1 << 30
_AT_LEAST = _GIB
# A server of a trillion parameters takes a while to let go.
_AFTER = timedelta(seconds=60)
_WITHIN = timedelta(days=1)
_LATEST = 50


@dataclass(frozen=True, slots=True)
class Leak:
    gpu: int
    uuid: str
    launch_id: int
    why: str


def leaks(db: Session, live: LiveHardware, alive: Collection[int], now: datetime) -> list[Leak]:
    """Of GPUs on which no living launch is; cheap where none holds memory."""
    foreign = {one.process.uuid for one in live.processes if one.launch_id is not None and one.launch_id not in alive}
    held = [
        one
        for one in live.samples
        if (one.memory_used_bytes or 0) >= _AT_LEAST and (not one.utilization_percent or one.uuid in foreign)
    ]
    if not held or live.reason is not None:
        return []
    ended = _ended(db, live.host_id or 0, now)
    taken = {gpu for number in alive for gpu in _claims(db, number)}
    found = []
    for sample in held:
        processes = [one for one in live.processes if one.process.uuid == sample.uuid]
        leak = _left_behind(sample, processes, ended) or (
            None if processes or sample.index in taken else _unseen(db, live.host_id or 0, sample, ended, now)
        )
        if leak is not None:
            found.append(leak)
    return found


@dataclass(frozen=True, slots=True)
class _Ended:
    began: datetime | None
    at: datetime
    gpus: Sequence[int]


def _ended(db: Session, host_id: int, now: datetime) -> Mapping[int, _Ended]:
    """The latest launches that ended within a day, the last one first; those of the last minute still let go."""
    query = (
        select(Launch.id, Launch.started_at, Launch.ended_at)
        .where(Launch.host_id == host_id, col(Launch.watched).is_(True), col(Launch.ended_at) <= now - _AFTER)
        .where(col(Launch.ended_at) >= now - _WITHIN)
        .order_by(col(Launch.ended_at).desc())
        .limit(_LATEST)
    )
    rows = db.exec(query).all()
    return {number or 0: _Ended(began, at, _claims(db, number or 0)) for number, began, at in rows if at is not None}


def _claims(db: Session, launch_id: int) -> list[int]:
    query = select(Claim.numbers).where(col(Claim.launch_id) == launch_id, col(Claim.resource) == "gpu")
    return sorted({number for numbers in db.exec(query).all() for number in numbers})


def _left_behind(sample: GpuSample, processes: Sequence[Owned], ended: Mapping[int, _Ended]) -> Leak | None:
    for owned in processes:
        if owned.launch_id in ended and (owned.process.used_bytes or 0) >= _AT_LEAST:
            number = owned.launch_id or 0
            size = f"{(owned.process.used_bytes or 0) / _GIB:.1f} GiB"
            who = f"pid {owned.process.pid} ({owned.name or 'unknown'})"
            why = f"{who} of {ids.public_id('L', number)}, which has ended, still holds {size}"
            return Leak(sample.index, sample.uuid, number, why)
    return None


def _unseen(db: Session, host_id: int, sample: GpuSample, ended: Mapping[int, _Ended], now: datetime) -> Leak | None:
    """What has never been free since a launch on it ended is what that launch held, save what was held before it."""
    if sample.utilization_percent:
        return None
    for number, end in ended.items():
        if sample.index not in end.gpus:
            continue
        since = series.summary(db, host_id, sample.index, "memory_used_bytes", end.at, now)
        if since is None or since.min < _AT_LEAST:
            return None
        held = min(since.min, sample.memory_used_bytes or 0) - _before(db, host_id, sample.index, end.began)
        if held < _AT_LEAST:
            continue
        size = f"{held / _GIB:.1f} GiB"
        why = f"{size} are held by no process that is seen, since {ids.public_id('L', number)} has ended"
        return Leak(sample.index, sample.uuid, number, why)
    return None


def _before(db: Session, host_id: int, gpu: int, began: datetime | None) -> float:
    """What others held already, whom the driver does not name in a container; nothing where that is not known."""
    if began is None:
        return 0.0
    known = series.summary(db, host_id, gpu, "memory_used_bytes", began - _AFTER, began)
    return known.min if known is not None else 0.0


def anomalies(found: Sequence[Leak]) -> list[Anomaly]:
    """One of each launch that left memory behind."""
    by_launch: dict[int, list[Leak]] = {}
    for leak in found:
        by_launch.setdefault(leak.launch_id, []).append(leak)
    return [_anomaly(number, told) for number, told in by_launch.items()]


def _anomaly(number: int, told: Sequence[Leak]) -> Anomaly:
    gpus = tuple(leak.gpu for leak in told)
    title = f"GPU {ranges(gpus)}: memory still held after the end of {ids.public_id('L', number)}"
    detail = "; ".join(f"GPU {leak.gpu}: {leak.why}" for leak in told)
    return Anomaly("memory held", gpus, title, detail, launch=number)
