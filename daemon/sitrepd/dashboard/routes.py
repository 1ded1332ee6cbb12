"""Pages of the dashboard, their parts, and their event stream."""

import re
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent
from markupsafe import Markup
from sqlmodel import Session, col, func, select
from starlette.responses import RedirectResponse, Response

from sitrepd import facts
from sitrepd.dashboard import alone, assets, comparison, gpus, history, measured, pages
from sitrepd.dashboard.looking import common, for_people, number_of, page_of, view_of
from sitrepd.dashboard.parts import PARTS, checkpoint, launches
from sitrepd.dashboard.stream import Tab
from sitrepd.dashboard.templates import render
from sitrepd.dashboard.view import View
from sitrepd.errors import UnknownId
from sitrepd.links import COOKIE, Links
from sitrepd.routing import RuntimeDep
from sitrepd.runtime import Runtime
from sitrepd.sessions import current
from sitrepd.sessions.models import SessionRow
from sitrepd.storage import events, ids

router = APIRouter(include_in_schema=False)
router.include_router(comparison.router)
router.include_router(history.router)  # both before the parts of a session, whose addresses are alike
router.include_router(alone.router)
router.include_router(gpus.router)
_KEEP_S = 180 * 86400
_CLOSED = 20


@router.get("/open/{code}")
def open_link(code: str, request: Request, runtime: RuntimeDep) -> Response:
    """Exchange a one-time code for the cookie that keeps this browser in."""
    links: Links = request.app.state.links
    cookie = links.redeem(code)
    if cookie is None:
        text = "A link opens once, and only for a while. Make a new one on the machine where the daemon runs:"
        return pages.message(
            "This link was used or is too old", text, 410, "sitrep open", runtime.settings.templates_dir
        )
    response = RedirectResponse("/", 303, {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"})
    response.set_cookie(
        COOKIE, cookie, max_age=_KEEP_S, httponly=True, samesite="lax", secure=request.url.scheme == "https"
    )
    return response


@router.get("/")
def home(runtime: RuntimeDep) -> Response:
    """The only open session; where there are several, or none, what there is."""
    with runtime.store.read() as db:
        open_ones = current.open_sessions(db)
        if len(open_ones) == 1:
            return _session_page(runtime, db, open_ones[0].id)
        return page_of(runtime, "home", event=events.last_event_id(db), **_home(runtime, db))


@router.get("/sessions")
def list_sessions(runtime: RuntimeDep) -> Response:
    """All sessions, however many are open."""
    with runtime.store.read() as db:
        return page_of(runtime, "home", event=events.last_event_id(db), **_home(runtime, db))


@router.get("/part/home")
def home_part(runtime: RuntimeDep) -> Response:
    with runtime.store.read() as db:
        return page_of(runtime, "parts/home", **_home(runtime, db))


@router.get("/s/{session}")
def session_page(session: str, runtime: RuntimeDep) -> Response:
    """The dashboard of one session."""
    return for_people(runtime, lambda db: _session_page(runtime, db, number_of(db, session)))


@router.get("/s/{session}/{part}")
def session_part(session: str, part: str, runtime: RuntimeDep) -> Response:
    """One part of a session's page, for HTMX."""

    def look(db: Session) -> Response:
        if part not in PARTS:
            raise UnknownId(f"A page has no part {part!r}. Its parts are {', '.join(PARTS)}.")
        view = view_of(runtime, db, number_of(db, session))
        return page_of(runtime, f"parts/{part}", part=PARTS[part], **common(view), **PARTS[part].look(view))

    return for_people(runtime, look)


@router.get("/f/{fact_id}")
def fact_page(fact_id: str, runtime: RuntimeDep) -> Response:
    """The permanent page of any fact."""
    return for_people(runtime, lambda db: _fact_page(runtime, db, fact_id))


@router.get("/f/{fact_id}/panel")
def launch_panel(fact_id: str, runtime: RuntimeDep) -> Response:
    """The part of a launch's page that moves."""
    return for_people(runtime, lambda db: _fact_page(runtime, db, fact_id, "parts/panel"))


def _tab(
    runtime: RuntimeDep,
    session: Annotated[str | None, Query(max_length=20)] = None,
    after: Annotated[int, Query(ge=0, lt=2**63)] = 0,
    last_event_id: Annotated[str | None, Header(max_length=20)] = None,
) -> Tab:
    cursor = int(last_event_id) if last_event_id and re.fullmatch(r"\d{1,18}", last_event_id) else after
    if session is None:
        return Tab(runtime, None, True, cursor)
    with runtime.store.read() as db:
        return Tab(runtime, number_of(db, session), False, cursor)


@router.get("/stream", response_class=EventSourceResponse)
async def stream(
    tab: Annotated[Tab, Depends(_tab)], edition: Annotated[str, Query(max_length=40)] = ""
) -> AsyncIterator[ServerSentEvent]:
    """What changes: `part-NAME` to fetch it anew, `live` with values, `reload` where the page is out of date."""
    if edition and edition != assets.edition():
        yield ServerSentEvent(event="reload", raw_data="")
        return
    async for event in tab.events():
        yield event


def _session_page(runtime: Runtime, db: Session, number: int | None) -> Response:
    view = view_of(runtime, db, number)
    # Read before the parts: what changes meanwhile is then told once more, rather than never.
    event = events.last_event_id(db)
    templates = runtime.settings.templates_dir
    shown = {
        part.name: Markup(render(f"parts/{part.name}", templates, part=part, **common(view), **part.look(view)))
        for part in PARTS.values()
    }
    session = db.get(SessionRow, number) if number else None
    many = db.exec(select(func.count()).select_from(SessionRow)).one()
    return page_of(runtime, "session", shown=shown, session=session, event=event, many=many, **common(view))


def _home(runtime: Runtime, db: Session) -> dict[str, Any]:
    view = view_of(runtime, db, None)
    closed = select(SessionRow).where(col(SessionRow.ended_at).is_not(None)).order_by(col(SessionRow.ended_at).desc())
    return {
        "open_ones": [_brief(view, row) for row in current.open_sessions(db)],
        "closed": [_brief(view, row) for row in db.exec(closed.limit(_CLOSED)).all()],
        "stray": view.count("launch"),
        **common(view),
    }


def _brief(view: View, row: SessionRow) -> dict[str, Any]:
    """A session in one line, with what is under way in it."""
    mine = View(view.db, view.registry, row.id, view.now, view.live)
    alive = view.alive("launches")
    watched = [
        (
            ids.public_id("L", launch.id),
            launch.name or launch.engine or "",
            getattr(alive.get(launch.id), "state", launch.state),
        )
        for launch in mine.rows("launch", 20, watched=True)
        if launch.ended_at is None
    ]
    return {"id": ids.public_id("S", row.id or 0), "row": row, "launches": watched}


def _fact_page(runtime: Runtime, db: Session, fact_id: str, launch_template: str = "launch") -> Response:
    parsed = ids.parse_id(fact_id)
    noun = runtime.registry.by_prefix.get(parsed[0]) if parsed else None
    if noun is None:
        raise UnknownId(f"{fact_id!r} is no id. Ids are a letter and a number, such as L14.")
    row = facts.get(db, noun, fact_id)
    view = view_of(runtime, db, row.session_id)
    told = facts.publish_one(db, runtime.registry, noun, row)
    fields = {name: value for name, value in told.model_dump(exclude_none=True).items() if value not in ({}, [])}
    context: dict[str, Any] = {"noun": noun, "told": told, "fields": fields, **common(view)}
    context["event"] = events.last_event_id(db)
    if noun.word == "checkpoint":
        return page_of(runtime, "checkpoint", **context, **checkpoint.shown(view, row))
    if noun.word == "launch":
        shown = launches.panel(told, view.alive("launches"), view.now)
        return page_of(runtime, launch_template, **context, panel=shown)
    if noun.word == "sweep":
        from sitrepd.dashboard import sweeping

        return page_of(runtime, "sweep", **context, **sweeping.shown(db, runtime, row))
    if noun.word in measured.PAGES:
        return page_of(runtime, noun.word, **context, **measured.PAGES[noun.word](view, told))
    return page_of(runtime, "fact", **context)
