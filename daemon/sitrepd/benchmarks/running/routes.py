"""HTTP of benchmarks that are run: begin one, see how far it is, stop it; presets, and the files that were kept."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Response
from pydantic import BaseModel, Field
from sqlmodel import Session, col, func, select

from sitrepd import facts
from sitrepd.benchmarks import originals
from sitrepd.benchmarks.models import BenchmarkMapping
from sitrepd.benchmarks.running import presets
from sitrepd.benchmarks.running.asked import BenchAsked
from sitrepd.benchmarks.running.mappings import Mapping
from sitrepd.benchmarks.running.models import BenchmarkJob, JobOut
from sitrepd.benchmarks.running.prepare import originals_dir
from sitrepd.benchmarks.running.service import BenchmarkJobs
from sitrepd.errors import Conflict, InvalidFact, UnknownId
from sitrepd.routing import (
    Cursor,
    FactId,
    HintDep,
    Limit,
    Listed,
    ReadDep,
    RuntimeDep,
    TellerDep,
    api_router,
    problems,
)
from sitrepd.sessions import current

router = api_router("benchmarks")
JobNumber = Annotated[int, Path(description="The number of a benchmark job.", ge=1, lt=2**63)]


class PresetOut(BaseModel):
    """A named workload; `own` is one of the settings file."""

    name: str
    own: bool
    about: str = ""
    prompts: int | None = Field(None, description="Requests.")
    input_len: int | None = None
    output_len: int | None = None
    concurrency: int | None = None
    request_rate: float | None = None
    flags: list[str] = Field(default_factory=list)


class Presets(BaseModel):
    data: list[PresetOut]


class MappingOut(Mapping):
    name: str


@router.post(
    "/benchmarks/run", name="run_benchmark", response_model=JobOut, response_model_exclude_none=True, status_code=202,
    responses=problems(UnknownId, Conflict, InvalidFact),
)  # fmt: skip
async def run(body: BenchAsked, runtime: RuntimeDep, hint: HintDep, teller: TellerDep) -> JobOut:
    """Measure a server: warm it up, run the tool as often as asked, and store each run as it ends.

    Answers at once; the runs go on when the daemon is restarted. Runs against one launch wait for each other. With
    `also` all servers are measured in turns, a job each: the first is answered, and its `turns` names all of them.
    """
    jobs: BenchmarkJobs = runtime.live["benchmark_jobs"]
    with runtime.store.read() as db:
        told = current.Hint(body.session) if body.session else hint
        session_id = current.resolve_or_none(db, told) if not body.session else current.resolve(db, told)
    number = await jobs.start(body, session_id, f"observed:bench run, asked by {teller.removeprefix('told:')}")
    runtime.activity.touch(session_id)
    return jobs.out(number)


@router.get(
    "/benchmarks/jobs", name="list_benchmark_jobs", response_model=Listed[JobOut], response_model_exclude_none=True
)
def list_jobs(db: ReadDep, runtime: RuntimeDep, limit: Limit = 100, cursor: Cursor = None) -> Any:
    """Benchmarks that are run or were, newest first."""
    jobs: BenchmarkJobs = runtime.live["benchmark_jobs"]
    number = col(BenchmarkJob.id)
    query = select(BenchmarkJob).order_by(number.desc()).limit(limit + 1)
    if cursor is not None:
        query = query.where(number < facts.before(cursor))
    rows = list(db.exec(query).all())
    more = len(rows) > limit
    return {
        "data": [jobs.now(row) for row in rows[:limit]],
        "count": db.exec(select(func.count()).select_from(BenchmarkJob)).one(),
        "next_cursor": str(rows[limit - 1].id) if more else None,
    }


@router.get(
    "/benchmarks/jobs/{job}", name="get_benchmark_job", response_model=JobOut, response_model_exclude_none=True,
    responses=problems(UnknownId),
)  # fmt: skip
def get_job(job: JobNumber, runtime: RuntimeDep) -> JobOut:
    """How far a benchmark is, and the runs that it has measured."""
    jobs: BenchmarkJobs = runtime.live["benchmark_jobs"]
    return jobs.out(job)


@router.post(
    "/benchmarks/jobs/{job}/stop", name="stop_benchmark_job", response_model=JobOut, response_model_exclude_none=True,
    responses=problems(UnknownId),
)  # fmt: skip
async def stop_job(job: JobNumber, runtime: RuntimeDep) -> JobOut:
    """End it and its process; the runs that it has measured stay. One that is over is left as it is."""
    jobs: BenchmarkJobs = runtime.live["benchmark_jobs"]
    return await jobs.stop(job)


@router.get("/benchmarks/presets", name="list_presets", response_model_exclude_none=True)
def list_presets() -> Presets:
    """Named workloads, those of the settings file among them."""
    return Presets.model_validate({"data": presets.described()})


@router.get(
    "/benchmarks/mappings", name="list_mappings", response_model=Listed[MappingOut], response_model_exclude_none=True
)
def list_mappings(db: ReadDep) -> Any:
    """Mappings of somebody's own JSON or CSV, by name."""
    rows = db.exec(select(BenchmarkMapping).order_by(col(BenchmarkMapping.name))).all()
    return {"data": [{"name": row.name, **row.fields} for row in rows], "count": len(rows)}


@router.put(
    "/benchmarks/mappings/{name}", name="put_mapping", response_model=MappingOut, response_model_exclude_none=True
)
async def put_mapping(
    name: Annotated[str, Path(min_length=1, max_length=100)], body: Mapping, runtime: RuntimeDep
) -> Any:
    """Keep a mapping by name; one of that name is replaced."""

    def job(db: Session) -> None:
        row = db.get(BenchmarkMapping, name) or BenchmarkMapping(name=name)
        row.fields = body.model_dump(mode="json", exclude_none=True)
        db.add(row)

    await runtime.store.write_async(job)
    return {"name": name, **body.model_dump()}


@router.get(
    "/benchmarks/{fact_id}/original", name="get_original", response_class=Response, responses=problems(UnknownId)
)
def get_original(fact_id: FactId, db: ReadDep, runtime: RuntimeDep) -> Response:
    """The file that a benchmark was read from, without secrets; ETag is the SHA-256 of what it was."""
    row = facts.get(db, runtime.registry.by_word["benchmark"], fact_id)
    body = originals.read(originals_dir(runtime), row.original, fact_id)
    return Response(body, media_type="application/octet-stream", headers={"ETag": f'"{row.original["sha256"]}"'})
