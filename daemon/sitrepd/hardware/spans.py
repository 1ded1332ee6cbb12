"""When a launch or a benchmark ran, and on which GPUs: what the figures of its time are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlmodel import Session, col, select

from sitrepd.benchmarks.models import Benchmark, BenchmarkMetric
from sitrepd.clock import utc_now
from sitrepd.hardware.meaning import HardwareSummary, gpus_of, summarised, throttled
from sitrepd.launches.models import Launch

_TOKENS = ("total_output_tokens", "total_output")
# A sample of the very moment of the end belongs to it.
_JUST_AFTER = timedelta(milliseconds=1)
_LONGEST_S = 366 * 86400.0


@dataclass(frozen=True, slots=True)
class Span:
    host_id: int
    launch_id: int | None
    since: datetime
    until: datetime
    tokens: int | None = None


def of_launch(row: Launch) -> Span | None:
    """From its start to its end, or until now; None of one that was only told of."""
    if not row.watched or row.host_id is None or row.started_at is None:
        return None
    return Span(row.host_id, row.id, row.started_at, row.ended_at or utc_now())


def of_benchmark(db: Session, row: Benchmark) -> Span | None:
    """The time before its end that it says it took; None where it was told later, so that its time is not known."""
    launch = db.get(Launch, row.launch_id) if row.launch_id else None
    if launch is None or launch.host_id is None or not row.provenance.startswith("observed"):
        return None
    figures = _figures(db, row.id or 0)
    seconds = figures.get("duration")
    since = begun(row.at, seconds) if seconds else None
    if since is None:
        return None
    tokens = next((round(figures[name]) for name in _TOKENS if figures.get(name)), None)
    return Span(launch.host_id, launch.id, since, row.at + _JUST_AFTER, tokens)


def begun(ended_at: datetime, seconds: float) -> datetime | None:
    """None where it cannot have taken so long: a result file may say anything."""
    return ended_at - timedelta(seconds=seconds) if 0 < seconds <= _LONGEST_S else None


def summary_of(db: Session, span: Span) -> HardwareSummary:
    gpus = gpus_of(db, span.host_id, span.launch_id)
    return summarised(db, span.host_id, gpus, span.since, span.until, span.tokens)


def mark(db: Session, row: Benchmark) -> None:
    """Marks a run with what held the clocks of its GPUs down, where that is news."""
    span = of_benchmark(db, row)
    if span is None:
        return
    told = throttled(db, span.host_id, gpus_of(db, span.host_id, span.launch_id), span.since, span.until)
    if told:
        row.marks = [*(row.marks or ()), *told]
        db.add(row)


def _figures(db: Session, number: int) -> dict[str, float]:
    wanted = ("duration", *_TOKENS)
    query = select(BenchmarkMetric.name, BenchmarkMetric.value).where(
        BenchmarkMetric.benchmark_id == number, col(BenchmarkMetric.name).in_(wanted)
    )
    return dict(db.exec(query).all())
