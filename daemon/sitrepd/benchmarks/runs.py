"""Stored benchmarks as the comparison sees them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from decimal import Decimal
from functools import cache
from typing import Any

from sqlalchemy import Text, cast, sql
from sqlmodel import Session, col, select

from sitrepd.benchmarks.compare import Run
from sitrepd.benchmarks.marks import FAILED, failures, marks_of
from sitrepd.benchmarks.metrics import Metric
from sitrepd.benchmarks.models import Benchmark, BenchmarkMetric, BenchmarkPublic, BenchmarkSample

_COLUMNS = ("id", "name", "launch_id", "baseline", "comparable", "config", "workload", "note", "marks")
_SETTINGS = ("config", "workload", "marks")


def run_of(told: BenchmarkPublic) -> Run:
    failed = told.metrics.get(FAILED)
    return Run(
        id=told.id,
        metrics={name: Metric(name, one.value, one.unit, one.better) for name, one in told.metrics.items()},
        name=told.name,
        baseline=told.baseline,
        comparable=told.comparable,
        config=told.config,
        workload=told.workload,
        launch=told.launch,
        note=told.note,
        marks=marks_of(told.marks, failed.value if failed else None),
    )


def stored_runs(db: Session, session_id: int | None, names: Iterable[str]) -> list[Run]:
    """The session's runs with these of their metrics, oldest first; settings that read the same are one object."""
    run = Benchmark.__table__.c  # type: ignore[attr-defined]
    columns = (cast(run[name], Text).label(name) if name in _SETTINGS else run[name] for name in _COLUMNS)
    query = sql.select(*columns).where(run.session_id == session_id).order_by(run.id)
    metrics = _metrics(db, session_id, names)
    failed = failures(db, session_id)
    parse = cache(_parsed)
    return [
        Run(
            id=f"B{row.id}",
            metrics=metrics.get(row.id, {}),
            name=row.name,
            baseline=bool(row.baseline),
            comparable=bool(row.comparable),
            config=parse(row.config),
            workload=parse(row.workload),
            launch=None if row.launch_id is None else f"L{row.launch_id}",
            note=row.note,
            marks=marks_of(parse(row.marks) or (), failed.get(row.id)),
        )
        for row in db.connection().execute(query)
    ]


def _parsed(settings: str | None) -> Any:
    return json.loads(settings or "null") or {}


def _metrics(db: Session, session_id: int | None, names: Iterable[str]) -> dict[int, dict[str, Metric]]:
    """By the number of the run."""
    run, value = Benchmark.__table__.c, BenchmarkMetric.__table__.c  # type: ignore[attr-defined]
    both = sql.join(run.id.table, value.id.table, value.benchmark_id == run.id)
    query = sql.select(value.benchmark_id, value.name, value.text, value.unit, value.better).select_from(both)
    found: dict[int, dict[str, Metric]] = {}
    asked = query.where(run.session_id == session_id, value.name.in_(list(names)))
    for number, name, text, unit, better in db.connection().execute(asked):
        found.setdefault(number, {})[name] = Metric(name, Decimal(text), unit, better)
    return found


def metric_names(db: Session, session_id: int | None) -> list[str]:
    """All that the session's runs have measured."""
    query = select(BenchmarkMetric.name).join(Benchmark, col(Benchmark.id) == BenchmarkMetric.benchmark_id)
    return sorted(db.exec(query.where(col(Benchmark.session_id) == session_id).distinct()).all())


def stored_samples(db: Session, session_id: int | None, metric: str) -> dict[str, list[Decimal]]:
    """The samples of a metric, by the id of their run."""
    query = select(BenchmarkSample).join(Benchmark, col(Benchmark.id) == BenchmarkSample.benchmark_id)
    wanted = query.where(col(Benchmark.session_id) == session_id, col(BenchmarkSample.name) == metric)
    return {f"B{row.benchmark_id}": [Decimal(text) for text in row.texts] for row in db.exec(wanted).all()}
