"""HTTP of benchmarks: result files in, the comparison out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from sqlmodel import Session
from starlette.concurrency import run_in_threadpool

from sitrepd import facts
from sitrepd.benchmarks import service
from sitrepd.benchmarks.models import BenchmarkPublic
from sitrepd.benchmarks.parsers import BenchmarkFileError, read_results
from sitrepd.benchmarks.slice import BENCHMARK, SLICE
from sitrepd.errors import NoSession
from sitrepd.facts import Scope
from sitrepd.routing import (
    HintDep,
    RuntimeDep,
    api_router,
    fact_routes,
    problems,
)
from sitrepd.sessions import current

router = api_router("benchmarks")


class Taken(BaseModel):
    """What came of a result file."""

    data: list[BenchmarkPublic] = Field(description="The runs of the file, those that were known before included.")
    stored: int
    known: int = Field(description="Runs that were stored already, and are not stored again.")
    notes: list[str] = Field(default_factory=list)


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


def routers() -> Sequence[APIRouter]:
    """The session's own routes first, then those that every noun has."""
    from sitrepd.benchmarks import comparing
    from sitrepd.benchmarks.trainings import routes as trained
    from sitrepd.benchmarks.running.routes import router as running

    return router, running, comparing.router, trained.router, *(fact_routes(noun) for noun in SLICE.nouns)
