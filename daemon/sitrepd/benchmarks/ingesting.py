"""HTTP of the points of a training run: many values in one request, answered once they are durable."""

from __future__ import annotations

from fastapi import Request
from pydantic import BaseModel, Field
from sqlmodel import Session
from starlette.concurrency import run_in_threadpool

from sitrepd import facts
from sitrepd.benchmarks import ingest
from sitrepd.errors import InvalidFact, UnknownId
from sitrepd.routing import FactId, RuntimeDep, api_router, problems

router = api_router("trainings")


class Added(BaseModel):
    """What came of a batch."""

    id: str
    stored: int = Field(description="Values that are stored now, and survive whatever happens.")


@router.post(
    "/trainings/{fact_id}/points", name="add_points", response_model=Added, status_code=201,
    responses=problems(UnknownId, InvalidFact),
    openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": ingest.SCHEMA}}}},
)  # fmt: skip
async def add_points(fact_id: FactId, request: Request, runtime: RuntimeDep) -> Added:
    """Add points to a training run, as columns: up to 200000 values at once, stored whole or not at all."""
    body = await request.body()
    columns = await run_in_threadpool(ingest.read, body)
    noun = runtime.registry.by_word["training"]

    def job(db: Session) -> tuple[int | None, Added]:
        row = facts.get(db, noun, fact_id)
        stored = ingest.store(db, row, columns)
        return row.session_id, Added(id=noun.public_id(row.id), stored=stored)

    session_id, added = await runtime.store.write_async(job)
    runtime.activity.touch(session_id)
    return added
