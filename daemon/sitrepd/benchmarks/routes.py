"""HTTP of benchmarks: result files in, the comparison out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from sqlmodel import Session
from starlette.concurrency import run_in_threadpool

from sitrepd import facts
from sitrepd.benchmarks import service
from sitrepd.benchmarks.compare import Comparison
from sitrepd.benchmarks.models import BenchmarkPublic
from sitrepd.benchmarks.parsers import BenchmarkFileError, read_results
from sitrepd.benchmarks.slice import BENCHMARK, SLICE
from sitrepd.errors import InvalidFact, NoSession
from sitrepd.facts import Scope
from sitrepd.redact import redact_text
from sitrepd.routing import (
    HintDep,
    ReadDep,
    RuntimeDep,
    SessionId,
    api_router,
    fact_routes,
    problems,
    session_id,
)
from sitrepd.sessions import current

router = api_router("benchmarks")


class Taken(BaseModel):
    """What came of a result file."""

    data: list[BenchmarkPublic] = Field(description="The runs of the file, those that were known before included.")
    stored: int
    known: int = Field(description="Runs that were stored already, and are not stored again.")
    notes: list[str] = Field(default_factory=list)


class ComparedRow(BaseModel):
    """One configuration; `difference` is to the baseline, such as "+5.9 %"."""

    ids: list[str]
    launches: list[str]
    label: str
    value: float
    text: str = Field(description="The value as told, or the mean of the repeats.")
    texts: list[str]
    unit: str | None = None
    difference: str | None = None
    why: str | None = Field(None, description="Why it is not compared with the baseline.")
    baseline: bool
    best: bool
    comparable: bool
    superseded: bool
    words: list[str]
    notes: list[str]


class Compared(BaseModel):
    """The runs of a session by one metric."""

    metric: str
    unit: str | None = None
    better: str | None = None
    rows: list[ComparedRow]
    notes: list[str] = Field(description="What keeps it from being complete.")


@router.post(
    "/benchmarks/import", name="import_benchmarks", response_model=Taken, response_model_exclude_none=True,
    status_code=201, responses=problems(BenchmarkFileError, NoSession),
)  # fmt: skip
async def take_in(
    request: Request,
    runtime: RuntimeDep,
    hint: HintDep,
    name: Annotated[str, Query(description="The file's name or path, kept as the artifact.")] = "upload",
    launch: Annotated[str | None, Query(description="The launch that it was measured on; found if absent.")] = None,
    label: Annotated[str | None, Query(description="The name of the run; made from its settings if absent.")] = None,
    baseline: Annotated[bool, Query(description="The run that others are compared with.")] = False,
) -> Taken:
    """Read a result file of `sglang.bench_serving` (the body), whole or not at all; secrets are not stored."""
    parsed = await run_in_threadpool(read_results, await request.body(), name)
    told = service.Told(name, launch, label, baseline)

    def job(db: Session) -> tuple[int | None, Taken]:
        number = current.resolve(db, hint)
        scope = Scope(runtime.registry, f"imported:{name}", number, imported_from=name)
        new, known, notes = service.take_in(db, scope, parsed, told)
        db.flush()
        data = facts.publish(db, runtime.registry, BENCHMARK, [*new, *known])
        return number, Taken(data=data, stored=len(new), known=len(known), notes=notes)

    number, taken = await runtime.store.write_async(job)
    runtime.activity.touch(number)
    return taken


@router.get(
    "/sessions/{fact_session}/comparison", name="get_comparison", response_model=Compared,
    response_model_exclude_none=True, responses=problems(NoSession, InvalidFact),
)  # fmt: skip
def compare(
    fact_session: SessionId,
    db: ReadDep,
    runtime: RuntimeDep,
    hint: HintDep,
    metric: Annotated[str | None, Query(description="The session's own if absent.")] = None,
) -> Compared:
    """The runs of a session: value, difference to the baseline, and which is best."""
    scope = Scope(runtime.registry, "observed", session_id(db, fact_session, hint))
    return _compared(service.comparison(db, scope, metric))


def _compared(found: Comparison) -> Compared:
    rows: list[Any] = [
        ComparedRow.model_validate(
            {name: getattr(row, name) for name in ComparedRow.model_fields}, from_attributes=True
        )
        for row in found.rows
    ]
    return Compared(metric=redact_text(found.metric), unit=found.unit, better=found.better, rows=rows, notes=list(found.notes))


def routers() -> Sequence[APIRouter]:
    """The session's own routes first, then those that every noun has."""
    return router, *(fact_routes(noun) for noun in SLICE.nouns)
