"""HTTP of benchmarks: result files in, the comparison out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from sqlmodel import Session
from starlette.concurrency import run_in_threadpool

from sitrepd import facts
from sitrepd.benchmarks import originals, service
from sitrepd.benchmarks.models import BenchmarkPublic
from sitrepd.benchmarks.parsers import BenchmarkFileError, read_results
from sitrepd.benchmarks.parsers.mapped import read_mapped
from sitrepd.benchmarks.running.prepare import originals_dir, read_mapping
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
    mapping: Annotated[str | None, Query(description="Read it by this mapping: JSON, JSONL or CSV.")] = None,
    mixed: Annotated[bool, Query(description="Take runs of several tools or versions in one file.")] = False,
) -> Taken:
    """Read a result file (the body), whole or not at all; it is kept, and a run of it is stored once. No secrets are.

    Known are those of `sglang.bench_serving` and its Rust client, `bench_one_batch_server`, `vllm bench serve`,
    guidellm, aiperf and SpecForge's `bench_eagle3`, and the table that `bench_serving` prints.
    """
    body = await request.body()
    if mapping is not None:
        parsed = await run_in_threadpool(read_mapped, body, name, read_mapping(runtime, mapping))
    else:
        parsed = await run_in_threadpool(partial(read_results, mixed=mixed), body, name)
    kept = await run_in_threadpool(originals.keep, originals_dir(runtime), body, name)
    told = service.Told(name, launch, label, baseline, original=kept)

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
    from sitrepd.benchmarks.ingesting import router as ingesting
    from sitrepd.benchmarks.running.routes import router as running
    from sitrepd.benchmarks.trainings import routes as trained

    return router, running, ingesting, comparing.router, trained.router, *(fact_routes(noun) for noun in SLICE.nouns)
