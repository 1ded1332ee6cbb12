"""What an output token cost in energy, from the power that the GPUs drew while it was measured."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from sqlmodel import Session, col, func, select

from sitrepd.benchmarks.compare import Comparison
from sitrepd.benchmarks.groups import Run
from sitrepd.benchmarks.models import Benchmark
from sitrepd.facts import Scope
from sitrepd.hardware.models import GpuSample
from sitrepd.storage import ids

_MOST = 100
_FEWEST_SAMPLES = 3


def joules_per_token(db: Session, scope: Scope, found: Comparison) -> dict[str, float]:
    """By run, of the latest runs that were taken in as they ended; when others were measured is not known."""
    measured = [run for row in found.rows for run in row.runs if _tokens_and_seconds(run) is not None]
    numbers = {parsed[1]: run for run in measured[-_MOST:] if (parsed := ids.parse_id(run.id)) is not None}
    if not numbers:
        return {}
    launches = scope.registry.by_word["launch"].table
    wanted = select(Benchmark).where(col(Benchmark.id).in_(numbers), col(Benchmark.provenance).startswith("observed"))
    told: dict[str, float] = {}
    for row in db.exec(wanted).all():
        launch = db.get(launches, row.launch_id) if row.launch_id else None
        host = getattr(launch, "host_id", None)
        joules = _joules(db, host, row, numbers[row.id or 0]) if host else None
        if joules is not None:
            told[numbers[row.id or 0].id] = joules
    return told


def _tokens_and_seconds(run: Run) -> tuple[float, float] | None:
    tokens = run.metrics.get("total_output_tokens") or run.metrics.get("total_output")
    seconds = run.metrics.get("duration")
    if tokens is None or seconds is None or tokens.value <= 0 or seconds.value <= 0:
        return None
    return float(tokens.value), float(seconds.value)


def _joules(db: Session, host: int, row: Benchmark, run: Run) -> float | None:
    """Mean power of each GPU of the host, summed, times the duration, by token."""
    known = _tokens_and_seconds(run)
    if known is None:
        return None
    tokens, seconds = known
    power, count = func.avg(col(GpuSample.power_w)), func.count(col(GpuSample.power_w))
    query = select(power, count).where(
        col(GpuSample.host_id) == host,
        col(GpuSample.at) >= row.at - timedelta(seconds=seconds),
        col(GpuSample.at) <= row.at,
    )
    each: Iterable[tuple[float | None, int]] = db.exec(query.group_by(col(GpuSample.gpu))).all()
    sampled = [watts for watts, samples in each if watts is not None and samples >= _FEWEST_SAMPLES]
    return sum(sampled) * seconds / tokens if sampled else None
