"""What ran on this machine in a time: launches and benchmarks, as bands across the charts of its GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel
from sqlmodel import Session, col, select

from sitrepd.benchmarks.models import Benchmark, BenchmarkMetric
from sitrepd.claims.models import Claim
from sitrepd.hardware.spans import begun
from sitrepd.launches.models import Launch
from sitrepd.storage import ids

_MOST = 200


class Band(BaseModel):
    """`until` is absent while it goes on, `id` while a benchmark is not stored yet; no `gpus` are all of the host."""

    kind: Literal["launch", "benchmark"]
    id: str | None = None
    name: str | None = None
    state: str | None = None
    since: datetime
    until: datetime | None = None
    ready_at: datetime | None = None
    gpus: list[int] | None = None


def bands(
    db: Session, host_id: int, since: datetime, until: datetime, running: Iterable[Mapping[str, Any]] = ()
) -> list[Band]:
    """The newest 200 of either kind that touch the time; `running` are benchmarks that discovery sees now."""
    launches = _launches(db, host_id, since, until)
    now = [_running(one) for one in running if one.get("started_at") and one["started_at"] < until]
    return [*launches, *_benchmarks(db, host_id, since, until), *now]


def _launches(db: Session, host_id: int, since: datetime, until: datetime) -> list[Band]:
    columns = (Launch.id, Launch.name, Launch.engine, Launch.state, Launch.started_at, Launch.ready_at, Launch.ended_at)
    query = (
        select(*columns)  # type: ignore[call-overload]
        .where(Launch.host_id == host_id, col(Launch.watched).is_(True), col(Launch.started_at) < until)
        .where(col(Launch.ended_at).is_(None) | (col(Launch.ended_at) > since))
        .order_by(col(Launch.id).desc())
        .limit(_MOST)
    )
    rows = db.exec(query).all()
    gpus = _claimed(db, [row[0] for row in rows])
    return [
        Band(
            kind="launch", id=ids.public_id("L", number), name=name or engine, state=state, since=started, until=ended,
            ready_at=ready, gpus=gpus.get(number),
        )
        for number, name, engine, state, started, ready, ended in rows
    ]  # fmt: skip


def _claimed(db: Session, launches: Sequence[int]) -> dict[int, list[int]]:
    query = select(Claim.launch_id, Claim.numbers).where(
        col(Claim.launch_id).in_(launches), col(Claim.resource) == "gpu"
    )
    found: dict[int, set[int]] = {}
    for launch, numbers in db.exec(query).all():
        found.setdefault(launch or 0, set()).update(numbers)
    return {launch: sorted(numbers) for launch, numbers in found.items()}


def _benchmarks(db: Session, host_id: int, since: datetime, until: datetime) -> list[Band]:
    """Of those whose end was seen here; each says itself how long it took."""
    columns = (
        *(Benchmark.id, Benchmark.name, Benchmark.tool, Benchmark.at, Benchmark.launch_id),
        BenchmarkMetric.value,
    )
    query = (
        select(*columns)  # type: ignore[call-overload]
        .join(Launch, col(Launch.id) == col(Benchmark.launch_id))
        .join(BenchmarkMetric, col(BenchmarkMetric.benchmark_id) == col(Benchmark.id))
        .where(col(BenchmarkMetric.name) == "duration", Launch.host_id == host_id)
        .where(col(Benchmark.provenance).startswith("observed"), col(Benchmark.at) > since)
        .order_by(col(Benchmark.id).desc())
        .limit(_MOST)
    )
    rows = [(*row, start) for row in db.exec(query).all() if (start := begun(row[3], row[5])) and start < until]
    gpus = _claimed(db, [row[4] for row in rows if row[4] is not None])
    return [
        Band(
            kind="benchmark", id=ids.public_id("B", number or 0), name=name or tool, until=at, since=began_at,
            gpus=gpus.get(launch or 0),
        )
        for number, name, tool, at, launch, _, began_at in rows
    ]  # fmt: skip


def _running(one: Mapping[str, Any]) -> Band:
    return Band(kind="benchmark", name=one.get("name") or "benchmark", since=one["started_at"])
