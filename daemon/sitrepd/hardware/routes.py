"""HTTP of hosts and GPUs: this machine, what its GPUs do now, and what they did."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field
from sqlmodel import Session, col, select

from sitrepd import facts
from sitrepd.errors import InvalidFact, UnknownId
from sitrepd.hardware import past_routes, series
from sitrepd.hardware.box import described, model_disks
from sitrepd.hardware.live import LiveHardware
from sitrepd.hardware.models import Host, HostPublic, HostSnapshot
from sitrepd.hardware.now import GpusNow, gpus_now
from sitrepd.hardware.past_routes import asked_time
from sitrepd.hardware.quantities import METRICS, REASONS
from sitrepd.hardware.slice import HOST
from sitrepd.routing import FactId, ReadDep, RuntimeDep, api_router, fact_routes, problems
from sitrepd.runtime import Runtime
from sitrepd.shapes import Instant
from sitrepd.storage import ids

router = api_router("hosts")
# Less than this many idle samples missing is no gap.
_GAP_SAMPLES = 2.5


class Curve(BaseModel):
    """One value a bucket, null in a gap."""

    min: list[float | None]
    mean: list[float | None]
    max: list[float | None]


class GpuSeries(BaseModel):
    """Samples in buckets of `bucket_s`, as columns; empty buckets are left out but for one in each gap."""

    host: str
    gpu: int
    since: datetime
    until: datetime
    bucket_s: float
    at: list[datetime] = Field(description="Start of each bucket.")
    samples: list[int]
    throttled: list[float | None] = Field(description="Part of the samples in which the clocks were held down.")
    throttle: dict[str, int] = Field(description="Samples of the whole range by what held the clocks down.")
    metrics: dict[str, Curve]


@router.get("/hosts/current", name="get_current_host", response_model=HostPublic, response_model_exclude_none=True)
def current(db: ReadDep, runtime: RuntimeDep) -> Any:
    """The machine that this daemon runs on."""
    row = db.get(Host, runtime.host_id) if runtime.host_id else None
    if row is None:
        raise UnknownId("This machine has not been looked at yet; ask again in a moment.")
    return facts.publish_one(db, runtime.registry, HOST, row)


class Said(BaseModel):
    what: str
    text: str


class Seen(BaseModel):
    """What a host was found to consist of at `at`, when it had changed last; `words` are those of a checkpoint."""

    host: str
    at: datetime
    words: list[Said]
    facts: dict[str, Any]


@router.get("/hosts/{fact_id}/snapshot", name="get_host_snapshot", responses=problems(UnknownId))
def snapshot(fact_id: FactId, db: ReadDep, runtime: RuntimeDep) -> Seen:
    """What a machine was last seen to consist of: GPUs and their paths, processor, limits, network, disks."""
    number = runtime.host_id if fact_id == "current" else facts.get(db, HOST, fact_id).id
    newest = select(HostSnapshot).where(HostSnapshot.host_id == number).order_by(col(HostSnapshot.id).desc())
    row = db.exec(newest.limit(1)).first()
    if row is None:
        raise UnknownId(f"{fact_id} was only told of: no Sitrep daemon has looked at it.")
    words = [Said(what=what, text=text) for what, text in described(row.data)]
    host = db.get(Host, row.host_id)
    # The row knows how much room is left by now.
    disks = host.disks if host is not None and isinstance(host.disks, list) else ()
    words += [Said(what="model files", text=text) for text in model_disks(disks)]
    return Seen(host=ids.public_id("H", row.host_id), at=row.at, words=words, facts=row.data)


@router.get("/gpus", name="list_gpus", response_model=GpusNow, response_model_exclude_none=True, tags=["gpus"])
def gpus(runtime: RuntimeDep) -> GpusNow:
    """What each GPU of this host does now, with the processes on it and the launches that they belong to."""
    live: LiveHardware = runtime.live["hardware"]
    host = ids.public_id("H", live.host_id) if live.host_id else None
    return GpusNow(
        host=host,
        at=live.at,
        reason=live.reason,
        driver=live.driver,
        cuda_driver=live.cuda_driver,
        processes_at=live.processes_at,
        gpus=gpus_now(live, runtime.live.get("gpu_leaks")),
    )


@router.get("/gpus/{index}/samples", name="list_gpu_samples", tags=["gpus"], responses=problems(UnknownId, InvalidFact))
def samples(
    index: Annotated[int, Path(ge=0, description="The GPU's index on this host.")],
    db: ReadDep,
    runtime: RuntimeDep,
    since: Annotated[Instant | None, Query(description="From when; an hour before `until` if absent.")] = None,
    until: Annotated[Instant | None, Query(description="Until when; now if absent.")] = None,
    points: Annotated[int, Query(ge=1, le=5000, description="Buckets at the most.")] = 600,
    metric: Annotated[list[str] | None, Query(description="Only this one; may be repeated. All if absent.")] = None,
) -> GpuSeries:
    """What one GPU did: minimum, mean and maximum of each bucket of time."""
    start, end = asked_time(since, until)
    host_id = runtime.host_id or 0
    _check_known(db, runtime, index)
    step_s = (end - start).total_seconds() / points
    names = _metrics(metric or METRICS)
    found = series.columns(db, host_id, index, start, end, points, (*names, REASONS))
    found = found.with_gaps(step_s, _GAP_SAMPLES * runtime.settings.sample_idle_s)
    return GpuSeries(
        host=ids.public_id("H", host_id),
        gpu=index,
        since=start,
        until=end,
        bucket_s=step_s,
        at=[start + timedelta(seconds=number * step_s) for number in found.numbers],
        samples=found.samples,
        throttled=[held / count if count else None for held, count in zip(found.throttled, found.samples, strict=True)],
        throttle=series.throttling(db, host_id, index, start, end),
        metrics={name: _curve(*found.curves[name]) for name in names},
    )


def _metrics(asked: Sequence[str]) -> list[str]:
    for name in asked:
        if name not in METRICS:
            raise InvalidFact(f"There is no metric {name!r}; there are {', '.join(METRICS)}.")
    return [*dict.fromkeys(asked)]


def _curve(low: list[float | None], mean: list[float | None], high: list[float | None]) -> Curve:
    return Curve(min=low, mean=[None if value is None else round(value, 3) for value in mean], max=high)


def _check_known(db: Session, runtime: Runtime, index: int) -> None:
    live: LiveHardware = runtime.live["hardware"]
    known = {gpu.index for gpu in live.facts} | set(series.known_gpus(db, runtime.host_id or 0))
    if index not in known:
        there = f"its GPUs are {', '.join(map(str, sorted(known)))}" if known else live.reason or "it has none"
        raise UnknownId(f"This host has no GPU {index}: {there}.")


def routers() -> Sequence[APIRouter]:
    """`/hosts/current` must come before `/hosts/{fact_id}`."""
    return router, past_routes.router, fact_routes(HOST)
