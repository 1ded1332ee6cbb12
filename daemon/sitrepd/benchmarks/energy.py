"""What an output token cost in energy, from the power that the GPUs drew while it was measured."""

from __future__ import annotations

from datetime import timedelta

from sqlmodel import Session, col, select

from sitrepd.benchmarks.compare import Comparison
from sitrepd.benchmarks.groups import Run
from sitrepd.benchmarks.models import Benchmark
from sitrepd.facts import Scope
from sitrepd.hardware import series
from sitrepd.hardware.meaning import gpus_of
from sitrepd.storage import ids

_MOST = 100
_FEWEST_SAMPLES = 3
_JUST_AFTER = timedelta(milliseconds=1)


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
    """Mean power of each GPU of the launch, summed, times the duration, by token."""
    known = _tokens_and_seconds(run)
    if known is None:
        return None
    tokens, seconds = known
    since, until = row.at - timedelta(seconds=seconds), row.at + _JUST_AFTER
    each = [series.summary(db, host, gpu, "power_w", since, until) for gpu in gpus_of(db, host, row.launch_id)]
    sampled = [power.mean for power in each if power is not None and power.samples >= _FEWEST_SAMPLES]
    return sum(sampled) * seconds / tokens if sampled else None
