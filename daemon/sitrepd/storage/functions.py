"""SQL functions that each database spells in its own way."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Integer
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.expression import literal
from sqlalchemy.sql.functions import FunctionElement


class _TimeBucket(FunctionElement[int]):
    """(column, epoch seconds of the start, seconds a bucket)"""

    type = Integer()
    inherit_cache = True


def time_bucket(column: Any, since: datetime, step_s: float) -> ColumnElement[int]:
    """The number of the bucket of `step_s` seconds from `since` on that the time falls into, 0 for the first."""
    return _TimeBucket(column, literal(since.timestamp()), literal(float(step_s)))


@compiles(_TimeBucket, "sqlite")
def _on_sqlite(element: _TimeBucket, compiler: Any, **options: Any) -> str:
    at, since, step = (compiler.process(clause, **options) for clause in element.clauses)
    # A Julian day in 64 bits is 40 µs coarse, which would move a full second into the bucket before.
    milliseconds = f"ROUND((julianday({at}) - 2440587.5) * 86400000.0)"
    return f"CAST(({milliseconds} / 1000.0 - {since}) / {step} AS INTEGER)"


@compiles(_TimeBucket)
def _elsewhere(element: _TimeBucket, compiler: Any, **options: Any) -> str:
    at, since, step = (compiler.process(clause, **options) for clause in element.clauses)
    return f"CAST(FLOOR((EXTRACT(EPOCH FROM {at}) - {since}) / {step}) AS INTEGER)"
