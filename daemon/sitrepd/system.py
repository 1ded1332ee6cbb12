"""HTTP of the daemon itself: who it is, its events, a fact by its id, dashboard links, import and export."""

from __future__ import annotations

import os
from typing import Annotated, Any

from fastapi import Query, Request
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from sitrepd import __version__, facts, portable
from sitrepd.clock import iso
from sitrepd.errors import UnknownId
from sitrepd.links import Links
from sitrepd.routing import FactId, HintDep, ReadDep, RuntimeDep, SessionId, TellerDep, api_router, session_id
from sitrepd.storage import events, ids

router = api_router("daemon")


class About(BaseModel):
    """The daemon that answers."""

    version: str
    pid: int
    data_dir: str
    url: str


class Link(BaseModel):
    """Opens the dashboard once."""

    url: str
    expires_in_s: float


class EventOut(BaseModel):
    id: int
    at: str
    kind: str
    subject: str
    session: str | None = None
    data: dict[str, Any]


@router.get("/health", name="health")
async def health() -> dict[str, str]:
    """Says only that the daemon lives."""
    return {"status": "ok"}


@router.get("/about", name="about")
def about(request: Request, runtime: RuntimeDep) -> About:
    """Version, process and store of this daemon."""
    return About(
        version=__version__,
        pid=os.getpid(),
        data_dir=str(runtime.settings.data_dir),
        url=getattr(request.app.state, "url", ""),
    )


@router.post("/links", name="create_link", status_code=201)
async def create_link(request: Request, runtime: RuntimeDep) -> Link:
    """A one-time link to the dashboard."""
    links: Links = request.app.state.links
    return Link(
        url=f"{getattr(request.app.state, 'url', '')}/open/{links.make()}", expires_in_s=runtime.settings.link_ttl_s
    )


@router.get("/events", name="list_events")
def list_events(
    db: ReadDep,
    after: Annotated[int, Query(ge=0, lt=2**63, description="The last id that was seen.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 500,
    tail: Annotated[int | None, Query(ge=0, le=1000, description="Only so many of the latest.")] = None,
) -> list[EventOut]:
    """Changes in the order in which they were committed."""
    if tail is not None:
        after = max(after, events.last_event_id(db) - tail)
    return [
        EventOut(
            id=event.id or 0,
            at=iso(event.at),
            kind=event.kind,
            subject=event.subject,
            session=ids.public_id("S", event.session_id) if event.session_id else None,
            data=event.data,
        )
        for event in events.events_after(db, after, limit=limit)
    ]


@router.get("/facts/{fact_id}", name="get_fact")
def get_fact(fact_id: FactId, db: ReadDep, runtime: RuntimeDep) -> dict[str, Any]:
    """Any fact by its id, with the word for what it is in `type`."""
    parsed = ids.parse_id(fact_id)
    noun = runtime.registry.by_prefix.get(parsed[0]) if parsed else None
    if noun is None:
        known = ", ".join(f"{prefix}1 ({noun.word})" for prefix, noun in sorted(runtime.registry.by_prefix.items()))
        raise UnknownId(f"{fact_id!r} is no id. Ids look like {known}.")
    told = facts.publish_one(db, runtime.registry, noun, facts.get(db, noun, fact_id))
    return {"type": noun.word, **told.model_dump(mode="json", by_alias=True, exclude_none=True)}


@router.post("/import", name="import_session", status_code=201)
async def import_session(
    request: Request,
    runtime: RuntimeDep,
    teller: TellerDep,
    hint: HintDep,
    name: Annotated[str, Query(description="The file's name, kept as the provenance.")] = "upload",
    again: Annotated[bool, Query(description="Import it although it was imported before.")] = False,
) -> portable.Imported:
    """Take in a portable session file, whole or not at all; the body is the file (JSON Lines, UTF-8)."""
    body = await request.body()
    file = await run_in_threadpool(portable.parse, body, runtime.registry, name)
    outcome = await runtime.store.write_async(
        lambda db: portable.store(db, runtime.registry, file, name, teller, hint, again)
    )
    runtime.activity.touch(None)
    return outcome


@router.get("/sessions/{fact_session}/export", name="export_session", response_class=Response)
def export_session(fact_session: SessionId, db: ReadDep, runtime: RuntimeDep, hint: HintDep) -> Response:
    """A session as a portable session file."""
    text = portable.export(db, runtime.registry, session_id(db, fact_session, hint))
    return Response(text, media_type="application/x-ndjson")
