"""HTTP of search, timeline, comparison and retention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request

from sitrepd.checkpoints.service import find_checkpoint
from sitrepd.errors import InvalidFact, UnknownId
from sitrepd.history import compare, retention, service, timeline
from sitrepd.history.models import Comparison, Plan, SearchPage, TimelinePage
from sitrepd.routing import (
    Cursor,
    HintDep,
    Limit,
    ReadDep,
    RuntimeDep,
    SessionId,
    api_router,
    problems,
    session_id,
)
from sitrepd.sessions import current
from sitrepd.shapes import Instant

router = api_router("history")
Kinds = Annotated[list[str] | None, Query(alias="kind", description="Only facts of this kind; may be repeated.")]


@router.get(
    "/search", name="search_facts", response_model_exclude_none=True, responses=problems(InvalidFact, UnknownId)
)
def search(
    db: ReadDep,
    runtime: RuntimeDep,
    hint: HintDep,
    request: Request,
    q: Annotated[str, Query(description='Words, "a phrase", begin*; all must be found.', max_length=10_000)],
    kind: Kinds = None,
    limit: Annotated[int, Query(ge=1, le=200, description="How many at the most.")] = 20,
    cursor: Cursor = None,
) -> SearchPage:
    """Find facts by the words of all that was told, best first; of all sessions unless one is named."""
    named = "session" in request.query_params or "x-sitrep-session" in request.headers
    number = current.resolve(db, hint) if named else None
    asked = service.question(runtime.registry, q, kind or (), number, limit, cursor)
    return service.find(db, runtime.registry, asked)


@router.get(
    "/sessions/{fact_session}/timeline",
    name="session_timeline",
    response_model_exclude_none=True,
    responses=problems(InvalidFact, UnknownId),
)
def session_timeline(
    fact_session: SessionId,
    db: ReadDep,
    runtime: RuntimeDep,
    hint: HintDep,
    kind: Kinds = None,
    since: Annotated[Instant | None, Query(description="From this time on.")] = None,
    until: Annotated[Instant | None, Query(description="Up to this time.")] = None,
    fact: Annotated[str | None, Query(description="Only what concerns this fact, by its id.")] = None,
    order: Annotated[Literal["oldest", "newest"], Query(description="What comes first.")] = "oldest",
    limit: Limit = 100,
    cursor: Cursor = None,
) -> TimelinePage:
    """What happened in a session, in order; messages, phases and trials only where they are asked for by `kind`."""
    kinds = timeline.kinds_of(runtime.registry, kind or ())
    number = session_id(db, fact_session, hint)
    asked = timeline.Asked(number, kinds, since, until, fact, order == "newest", limit, cursor)
    return timeline.timeline(db, runtime.registry, asked)


@router.get(
    "/checkpoints/{a}/diff/{b}",
    name="compare_checkpoints",
    response_model_exclude_none=True,
    responses=problems(UnknownId),
)
def compare_checkpoints(a: str, b: str, db: ReadDep, runtime: RuntimeDep) -> Comparison:
    """What differs between two checkpoints, by facts, from the older to the newer; each by its id or name."""
    return compare.compare(db, runtime.registry, find_checkpoint(db, a), find_checkpoint(db, b))


@router.get("/retention", name="plan_retention")
def plan_retention(db: ReadDep, runtime: RuntimeDep) -> Plan:
    """What would be dropped now, and what is kept although it is old enough; nothing is changed."""
    return retention.plan(db, runtime.settings, runtime.registry)


@router.post("/retention", name="apply_retention")
async def apply_retention(runtime: RuntimeDep) -> Plan:
    """Drop what is too old now, as is done every so many hours."""
    return await retention.apply(runtime)


def routers() -> Sequence[APIRouter]:
    return (router,)
