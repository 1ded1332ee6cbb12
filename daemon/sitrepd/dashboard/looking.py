"""What every page does first: whose session it is, what may be looked at, and what to say where something is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlmodel import Session
from starlette.responses import HTMLResponse, Response

from sitrepd.clock import utc_now
from sitrepd.dashboard import pages
from sitrepd.dashboard.view import View
from sitrepd.errors import SitrepError
from sitrepd.runtime import Runtime
from sitrepd.sessions import current
from sitrepd.storage import ids


def for_people(runtime: Runtime, look: Callable[[Session], Response]) -> Response:
    """A page for people also where something is wrong."""
    try:
        with runtime.store.read() as db:
            return look(db)
    except SitrepError as error:
        return pages.message(
            error.title, error.detail, error.status, templates_dir=runtime.settings.templates_dir, home=True
        )


def page_of(runtime: Runtime, template: str, **context: Any) -> HTMLResponse:
    return pages.page(template, runtime.settings.templates_dir, **context)


def number_of(db: Session, session: str) -> int | None:
    """The session of an address; "none" stands for what belongs to no session."""
    return None if session == "none" else current.resolve(db, current.Hint(session))


def view_of(runtime: Runtime, db: Session, number: int | None) -> View:
    return View(db, runtime.registry, number, utc_now(), runtime.live)


def common(view: View) -> dict[str, Any]:
    name = ids.public_id("S", view.session_id) if view.session_id else "none"
    return {"now": view.now, "session_id": name}
