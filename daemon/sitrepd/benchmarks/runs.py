"""Stored benchmarks as the comparison sees them."""

from __future__ import annotations

from sitrepd.benchmarks.compare import Run
from sitrepd.benchmarks.metrics import Metric
from sitrepd.benchmarks.models import BenchmarkPublic


def run_of(told: BenchmarkPublic) -> Run:
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
    )
