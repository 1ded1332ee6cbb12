"""What speaks against a run, from what was told of it and from what it has measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from sqlalchemy import sql
from sqlmodel import Session

from sitrepd.benchmarks.models import Benchmark, BenchmarkMetric
from sitrepd.decimals import number_text

FAILED = "failed"
_SAID = "failed"


def marks_of(told: Iterable[str] | None, failed: Decimal | None) -> tuple[str, ...]:
    """The told ones, and that requests failed where these do not say so."""
    marks = tuple(told or ())
    if failed is None or failed <= 0 or any(_SAID in mark for mark in marks):
        return marks
    count = int(failed) if failed == failed.to_integral_value() else number_text(failed)
    return (*marks, f"{count} {'request' if failed == 1 else 'requests'} failed")


def failures(db: Session, session_id: int | None, numbers: Sequence[int] | None = None) -> dict[int, Decimal]:
    """How many requests failed, by the number of the run (of these, where some are named); none where all went well."""
    run, value = Benchmark.__table__.c, BenchmarkMetric.__table__.c  # type: ignore[attr-defined]
    both = sql.join(run.id.table, value.id.table, value.benchmark_id == run.id)
    query = sql.select(value.benchmark_id, value.text).select_from(both)
    conditions: list[Any] = [run.session_id == session_id, value.name == FAILED, value.value > 0]
    if numbers is not None:
        conditions.append(run.id.in_(numbers))
    return {number: Decimal(text) for number, text in db.connection().execute(query.where(*conditions))}
