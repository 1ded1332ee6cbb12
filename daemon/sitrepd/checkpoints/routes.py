"""HTTP of checkpoints: rendered now, the latest, stored ones in every format, hand-overs and their echoes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field
from sqlmodel import Session, col, func, select

from sitrepd import facts
from sitrepd.checkpoints import deliver, echoes
from sitrepd.checkpoints.budget import parse_budget
from sitrepd.checkpoints.latest import Latest, latest_of, response
from sitrepd.checkpoints.models import (
    Channel,
    Checkpoint,
    CheckpointMarks,
    CheckpointPublic,
    CheckpointSummary,
    Delivery,
    DeliveryPublic,
    DeliveryUpdate,
)
from sitrepd.checkpoints.service import checkpoints, find_checkpoint
from sitrepd.checkpoints.slice import CHECKPOINT, DELIVERY
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
    SessionId,
    TellerDep,
    api_router,
    fact_routes,
    get_runtime,
    listed,
    problems,
    session_id,
)
from sitrepd.runtime import Runtime
from sitrepd.sessions import current
from sitrepd.shapes import Name, Shape, Text
from sitrepd.storage import ids

router = api_router("checkpoints")

_FORMAT = "md, json, html or txt; else what Accept asks for"
_BUDGET = "Characters (9000), tokens (2000t), brief, standard or full; at least 1000 characters."
BudgetQuery = Annotated[str | None, Query(description=_BUDGET, examples=["9000"])]
Waiting = Annotated[bool, Query(description="Only those that are not known to have arrived.")]
FormatQuery = Annotated[str | None, Query(description=f"{_FORMAT}.", examples=["md"])]
_TEXTS: dict[str, Any] = {
    "description": "The checkpoint.",
    "content": {media: {"schema": {"type": "string"}} for media in ("text/markdown", "text/html", "text/plain")}
    | {"application/json": {"schema": {"type": "object"}}},
}


class CheckpointAsked(Shape):
    trigger: Name = Field(
        "asked", description="What it is made for, such as before compaction, after compaction.", max_length=80
    )
    cause: Name | None = Field(None, description="What caused that.", max_length=400)


class Resumed(Shape):
    to: Name = Field("rest", description="Who it is handed to.")
    budget: int | Text | None = Field(None, description=_BUDGET)
    channel: Channel | None = Field(None, description="The way it goes; known of the command line, else http.")


_ASKED, _RESUMED = CheckpointAsked(), Resumed()  # where there is no body


class Handed(BaseModel):
    checkpoint: str
    delivery: str
    text: str


class Echo(Shape):
    text: Text = Field(description="What the agent answered.")


class Echoed(BaseModel):
    deliveries: list[DeliveryPublic] = Field(description="Deliveries whose checkpoint the text names.")


def _parameter(name: str, description: str, place: str = "query") -> dict[str, Any]:
    told = {"name": name, "in": place, "required": place == "path", "description": description}
    return told | {"schema": {"type": "string"}}


@router.get(
    "/sessions/{fact_session}/checkpoints/latest",
    name="get_latest_checkpoint",
    response_class=Response,
    responses={200: _TEXTS, 304: {"description": "Not changed."}, **problems(NoSession, UnknownId, InvalidFact)},
    openapi_extra={
        "parameters": [
            _parameter("fact_session", "A session's id, or `current`.", "path"),
            _parameter("format", f"{_FORMAT}, else md."),
            _parameter("budget", _BUDGET),
        ]
    },
)
async def latest(request: Request) -> Response:
    """The latest checkpoint: the stored bytes, with an ETag; the first one is made where there is none."""
    return await latest_of(get_runtime(request)).respond(request.scope)


@router.get("/checkpoints", name="list_checkpoints", response_model_exclude_none=True)
def list_all(
    db: ReadDep, hint: HintDep, request: Request, limit: Limit = 100, cursor: Cursor = None
) -> Listed[CheckpointSummary]:
    """List, newest first, without the texts."""
    asked = "session" in request.query_params or "x-sitrep-session" in request.headers
    return _listed(db, current.resolve(db, hint) if asked else None, limit, cursor)


@router.get("/sessions/{fact_session}/checkpoints", name="list_session_checkpoints", response_model_exclude_none=True)
def list_in(
    fact_session: SessionId, db: ReadDep, hint: HintDep, limit: Limit = 100, cursor: Cursor = None
) -> Listed[CheckpointSummary]:
    """List those of a session, newest first, without the texts."""
    return _listed(db, session_id(db, fact_session, hint), limit, cursor)


@router.post(
    "/sessions/{fact_session}/checkpoints",
    name="create_session_checkpoint",
    response_model=CheckpointPublic,
    response_model_exclude_none=True,
    status_code=201,
    responses={200: {"description": "The latest one again: no fact has changed."}, **problems(NoSession, UnknownId)},
)
async def create(
    fact_session: SessionId, runtime: RuntimeDep, hint: HintDep, response: Response, body: CheckpointAsked = _ASKED
) -> Any:
    """Make a checkpoint now; where no fact has changed, the latest one is answered, and no number is used."""
    number = await _session(runtime, fact_session, hint)
    runtime.activity.touch(number)
    made = await checkpoints(runtime).make(number, body.trigger, body.cause)
    response.status_code = 201 if made.new else 200
    response.headers["Location"] = f"/api/v1/checkpoints/C{made.checkpoint.id}"
    return _public(runtime, made.checkpoint)


@router.get(
    "/checkpoints/{fact_id}",
    name="get_checkpoint",
    response_model=CheckpointPublic,
    responses={200: _TEXTS, **problems(UnknownId, InvalidFact)},
)
async def read(
    fact_id: FactId, request: Request, runtime: RuntimeDep, format: FormatQuery = None, budget: BudgetQuery = None
) -> Any:
    """A stored checkpoint: all of it as a fact, or its text in a format and size; both never change."""
    row = await asyncio.to_thread(_row, runtime, fact_id)
    fact_id = CHECKPOINT.public_id(row.id)
    form = Latest.form(format, request.headers.get("accept", ""), None)
    if form is None and budget is None:
        told: CheckpointPublic = _public(runtime, row)
        whole = response(told.model_dump_json(exclude_none=True), "json", fact_id)
        return Latest.conditional(whole, request.headers.get("if-none-match"))
    size = Latest.size(runtime, form or "md", budget)
    text = await asyncio.to_thread(checkpoints(runtime).text, row, form or "md", size)
    return Latest.conditional(response(text, form or "md", fact_id.upper()), request.headers.get("if-none-match"))


@router.patch(
    "/checkpoints/{fact_id}", name="mark_checkpoint", response_model=CheckpointSummary,
    response_model_exclude_none=True, responses=problems(UnknownId, InvalidFact, Conflict),
)  # fmt: skip
async def mark(fact_id: FactId, body: CheckpointMarks, runtime: RuntimeDep, teller: TellerDep) -> Any:
    """Name a checkpoint, pin it, or take that back; nothing else of it ever changes."""

    def job(db: Session) -> Any:
        row = find_checkpoint(db, fact_id)
        if body.name is not None:
            _refuse_name(db, row, body.name)
        facts.update(db, CHECKPOINT, row, body, Scope(runtime.registry, teller))
        db.flush()
        return _summary(row, len(row.markdown))

    return await runtime.store.write_async(job)


def _refuse_name(db: Session, row: Checkpoint, name: str) -> None:
    if ids.parse_id(name) is not None:
        raise InvalidFact(f"name={name!r} looks like an id.", errors=[{"field": "name", "message": "no id"}])
    other = db.exec(select(Checkpoint.id).where(Checkpoint.name == name, col(Checkpoint.id) != row.id)).first()
    if other is not None:
        raise Conflict(f"C{other} has the name {name!r} already; take it away there, or choose another.")


@router.get("/schemas/checkpoint", name="get_checkpoint_schema")
def read_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a checkpoint as JSON."""
    from sitrepd.checkpoints.schema import schema

    return schema()


@router.post(
    "/sessions/{fact_session}/resume",
    name="resume_session",
    response_class=Response,
    responses={200: _TEXTS, **problems(NoSession, UnknownId, InvalidFact)},
)
async def resume(
    fact_session: SessionId, runtime: RuntimeDep, hint: HintDep, teller: TellerDep, body: Resumed = _RESUMED,
    format: FormatQuery = None,
) -> Response:  # fmt: skip
    """Hand the latest checkpoint over: what is new since in front of the stored text, and a delivery to remember it."""
    if format not in (None, "md", "txt", "json"):
        raise InvalidFact(f"format={format!r}: a hand-over is md, txt or json.")
    budget = runtime.settings.checkpoint_budget if body.budget is None else parse_budget(str(body.budget))
    number = await _session(runtime, fact_session, hint)
    runtime.activity.touch(number)
    channel = body.channel or _channel(teller)
    handed = await deliver.resume(runtime, number, body.to, budget, conversation=hint.conversation, channel=channel)
    if format == "json":
        document = Handed(checkpoint=handed.checkpoint, delivery=str(handed.delivery), text=handed.text)
        return Response(document.model_dump_json(), media_type="application/json")
    return Response(handed.text, media_type="text/plain" if format == "txt" else "text/markdown")


@router.post("/sessions/{fact_session}/echo", name="echo_session", response_model_exclude_none=True)
async def echo(fact_session: SessionId, body: Echo, runtime: RuntimeDep, hint: HintDep) -> Echoed:
    """What an agent answered: deliveries of the checkpoints that it names have arrived."""
    number = await _session(runtime, fact_session, hint)
    numbers = await echoes.echo(runtime, number, body.text, hint.conversation)

    def read_back() -> list[Any]:
        with runtime.store.read() as db:
            rows = db.exec(select(Delivery).where(col(Delivery.id).in_(numbers)).order_by(col(Delivery.id))).all()
            return facts.publish(db, runtime.registry, DELIVERY, rows)

    return Echoed(deliveries=await asyncio.to_thread(read_back))


@router.get("/deliveries", name="list_deliveries", response_model_exclude_none=True)
def list_deliveries(
    db: ReadDep, runtime: RuntimeDep, hint: HintDep, request: Request, limit: Limit = 100, cursor: Cursor = None,
    waiting: Waiting = False,
) -> Listed[DeliveryPublic]:  # fmt: skip
    """List, newest first; with `waiting` those that nobody named and no transcript proves."""
    asked = "session" in request.query_params or "x-sitrep-session" in request.headers
    return _deliveries(db, runtime, current.resolve(db, hint) if asked else None, limit, cursor, waiting)


@router.get("/sessions/{fact_session}/deliveries", name="list_session_deliveries", response_model_exclude_none=True)
def list_deliveries_in(
    fact_session: SessionId, db: ReadDep, runtime: RuntimeDep, hint: HintDep, limit: Limit = 100,
    cursor: Cursor = None, waiting: Waiting = False,
) -> Listed[DeliveryPublic]:  # fmt: skip
    """List those of a session, newest first; with `waiting` those that nobody named and no transcript proves."""
    return _deliveries(db, runtime, session_id(db, fact_session, hint), limit, cursor, waiting)


def _deliveries(
    db: Session, runtime: Runtime, number: int | None, limit: int, cursor: str | None, waiting: bool
) -> Listed[DeliveryPublic]:
    where = echoes.not_arrived() if waiting else ()
    found: Listed[DeliveryPublic] = listed(
        db, runtime, DELIVERY, facts.page(db, DELIVERY, number, limit, cursor, *where)
    )
    return found


@router.patch(
    "/deliveries/{fact_id}",
    name="update_delivery",
    response_model=DeliveryPublic,
    response_model_exclude_none=True,
    summary="Change the fields that are given: One hand-over of a checkpoint to an agent.",
)
async def change_delivery(fact_id: FactId, body: DeliveryUpdate, runtime: RuntimeDep, teller: TellerDep) -> Any:  # type: ignore[valid-type]
    def job(db: Session) -> Any:
        row = facts.get(db, DELIVERY, fact_id)
        facts.update(db, DELIVERY, row, body, Scope(runtime.registry, teller))
        row.echoed_at = (row.echoed_at or utc_now()) if row.echoed else None
        db.flush()
        return facts.publish_one(db, runtime.registry, DELIVERY, row)

    return await runtime.store.write_async(job)


def _channel(teller: str) -> Channel:
    """By what the caller says it is."""
    client = teller.removeprefix("told:")
    return next((one for one in ("cli", "hook", "mcp") if client.startswith(one)), "http")


async def _session(runtime: Runtime, told: str, hint: current.Hint) -> int:
    def look() -> int:
        with runtime.store.read() as db:
            return session_id(db, told, hint)

    return await asyncio.to_thread(look)


def _row(runtime: Runtime, fact_id: str) -> Any:
    with runtime.store.read() as db:
        return find_checkpoint(db, fact_id)


def _public(runtime: Runtime, row: Checkpoint) -> Any:
    with runtime.store.read() as db:
        return facts.publish_one(db, runtime.registry, CHECKPOINT, row)


_SUMMED = ("at", "provenance", "observed_at", "imported_from", "number", "trigger", "name", "pinned")


def _summary(row: Any, characters: int) -> CheckpointSummary:
    return CheckpointSummary(
        id=f"C{row.id}", session=f"S{row.session_id}" if row.session_id else None, characters=characters,
        **{name: getattr(row, name) for name in _SUMMED},
    )  # fmt: skip


def _listed(db: Session, number: int | None, limit: int, cursor: str | None) -> Listed[CheckpointSummary]:
    """The section models and texts of a page may be megabytes: they are not read."""
    mine = [] if number is None else [col(Checkpoint.session_id) == number]
    count = db.exec(select(func.count()).select_from(Checkpoint).where(*mine)).one()
    columns = (
        *(getattr(Checkpoint, name) for name in ("id", "session_id", *_SUMMED)),
        func.length(Checkpoint.markdown).label("characters"),
    )
    query: Any = select(*columns).where(*mine).order_by(col(Checkpoint.id).desc()).limit(limit + 1)
    if cursor is not None:
        query = query.where(col(Checkpoint.id) < facts.before(cursor))
    rows = db.exec(query).all()
    told = [
        _summary(row, row.characters)
        for row in rows[:limit]
    ]  # fmt: skip
    return Listed(data=told, count=count, next_cursor=str(rows[limit - 1].id) if len(rows) > limit else None)


def routers() -> Sequence[APIRouter]:
    return (router, fact_routes(DELIVERY, update=False, listing=False))
