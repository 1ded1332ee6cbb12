"""HTTP of claims: make one, end one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from sqlmodel import Session

from sitrepd import facts
from sitrepd.claims import overlap
from sitrepd.claims.models import Claim, ClaimCreate, ClaimPublic, ClaimUpdate
from sitrepd.claims.service import end_claims, process_of
from sitrepd.claims.slice import CLAIM
from sitrepd.clock import utc_now
from sitrepd.errors import Conflict, InvalidFact, NoSession, UnknownId
from sitrepd.facts import Scope
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
from sitrepd.runtime import Runtime
from sitrepd.sessions import current

router = api_router("claims")
_USUAL = timedelta(hours=2)


@router.post(
    "/claims", name="create_claim", status_code=201, response_model=ClaimPublic, response_model_exclude_none=True,
    responses=problems(InvalidFact),
)  # fmt: skip
async def create(body: ClaimCreate, runtime: RuntimeDep, hint: HintDep, teller: TellerDep, response: Response) -> Any:
    """Claim GPUs or ports; what others have claimed of them is named in `conflicts`, and does not hinder it."""
    process = _process(body)
    now = utc_now()
    lasting = {} if body.until or body.pid else {"until": now + _USUAL}
    told = body.model_copy(update={"owner": body.owner or teller.removeprefix("told:"), **lasting})

    def job(db: Session) -> tuple[int | None, ClaimPublic]:
        session_id = _session(db, hint)
        row: Claim = facts.tell(db, CLAIM, told, Scope(runtime.registry, teller, session_id))
        row.process = process
        row.host_id = row.host_id or runtime.host_id
        db.add(row)
        db.flush()
        return session_id, _publish(db, runtime, row)

    session_id, answer = await runtime.store.write_async(job)
    runtime.activity.touch(session_id)
    response.headers["Location"] = f"/api/v1/claims/{answer.id}"
    return answer


def _session(db: Session, hint: current.Hint) -> int | None:
    """None also where several are open: a GPU may be claimed for none of them."""
    try:
        return current.resolve(db, hint)
    except NoSession:
        if hint.session:
            raise
        return None


def _process(body: ClaimCreate) -> dict[str, Any] | None:
    if body.pid is None:
        return None
    process = process_of(body.pid)
    if process is None:
        raise InvalidFact(f"pid: there is no process {body.pid} on this host.")
    return process


def _publish(db: Session, runtime: Runtime, row: Claim) -> ClaimPublic:
    told: ClaimPublic = facts.publish_one(db, runtime.registry, CLAIM, row)
    now = utc_now()
    if told.active:
        others = [one for one in overlap.holding(db, now, row.host_id) if one.id != row.id]
        told.conflicts = [
            overlap.said(one, shared, now)
            for one, shared in overlap.on(others, row.resource, row.numbers)
            if overlap.is_of_other(one, row.session_id, row.owner)
        ]
    return told


@router.get("/claims", name="list_claims", response_model=Listed[ClaimPublic], response_model_exclude_none=True)
def list_all(
    db: ReadDep,
    runtime: RuntimeDep,
    limit: Limit = 100,
    cursor: Cursor = None,
    ended: Annotated[bool, Query(description="Those that are over too.")] = False,
) -> Any:
    """List those that hold now, newest first, of all sessions: a GPU is taken whoever has claimed it."""
    if ended:
        page = facts.page(db, CLAIM, None, limit, cursor)
    else:
        first = facts.before(cursor) if cursor is not None else None
        held = [row for row in overlap.everywhere(db, utc_now()) if first is None or (row.id or 0) < first]
        rows = held[::-1][:limit]
        page = facts.Page(rows, len(held), str(rows[-1].id) if len(held) > limit else None)
    told = [_publish(db, runtime, row) for row in page.rows]
    return {"data": told, "count": page.count, "next_cursor": page.cursor}


@router.get("/claims/{fact_id}", name="get_claim", response_model=ClaimPublic, response_model_exclude_none=True)
def read(fact_id: FactId, db: ReadDep, runtime: RuntimeDep) -> Any:
    """Read one: who uses which GPUs or ports, and until when."""
    return _publish(db, runtime, facts.get(db, CLAIM, fact_id))


@router.patch("/claims/{fact_id}", name="update_claim", response_model=ClaimPublic, response_model_exclude_none=True)
async def change(fact_id: FactId, body: ClaimUpdate, runtime: RuntimeDep, teller: TellerDep) -> Any:
    """Change why, whose, or until when."""

    def job(db: Session) -> ClaimPublic:
        row = facts.get(db, CLAIM, fact_id)
        facts.update(db, CLAIM, row, body, Scope(runtime.registry, teller))
        db.flush()
        return _publish(db, runtime, row)

    return await runtime.store.write_async(job)


@router.post(
    "/claims/{fact_id}/end", name="end_claim", response_model=ClaimPublic, response_model_exclude_none=True,
    responses=problems(UnknownId, Conflict),
)  # fmt: skip
async def end(fact_id: FactId, runtime: RuntimeDep, teller: TellerDep) -> Any:
    """End a claim now."""

    def job(db: Session) -> ClaimPublic:
        row: Claim = facts.get(db, CLAIM, fact_id)
        if row.ended_at is not None:
            raise Conflict(f"{CLAIM.public_id(row.id)} has ended already.")
        end_claims(db, {row.id or 0: f"ended by {teller}"})
        db.flush()
        return _publish(db, runtime, row)

    return await runtime.store.write_async(job)


def routers() -> Sequence[APIRouter]:
    return (router,)
