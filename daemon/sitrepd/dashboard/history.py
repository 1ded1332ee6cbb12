"""Pages of what was: the timeline of a session, search, and two checkpoints compared."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query
from markupsafe import Markup, escape
from sqlmodel import Session
from starlette.responses import Response

from sitrepd.checkpoints.service import find_checkpoint
from sitrepd.dashboard.looking import common, for_people, number_of, page_of, view_of
from sitrepd.errors import UnknownId
from sitrepd.history import compare, service, timeline
from sitrepd.history.models import Moment
from sitrepd.history.words import words
from sitrepd.routing import RuntimeDep
from sitrepd.sessions.models import SessionRow
from sitrepd.storage.search import MARKS

router = APIRouter(include_in_schema=False)
_KINDS = ("launch", "benchmark", "finding", "directive", "next_step", "checkpoint", "delivery", "message", "phase")
_LIMIT = 100
_MARKED = re.compile("{}([^{}{}]*){}".format(MARKS[0], *MARKS, MARKS[1]))
_STRAY = dict.fromkeys(map(ord, MARKS))
_LONG = 200


@router.get("/s/{session}/timeline")
def timeline_page(
    session: str,
    runtime: RuntimeDep,
    kind: Annotated[str, Query(max_length=40)] = "",
    order: Annotated[str, Query(max_length=10)] = "newest",
    cursor: Annotated[str | None, Query(max_length=80)] = None,
) -> Response:
    """What happened in a session, the newest first."""

    def look(db: Session) -> Response:
        number = number_of(db, session)
        if number is None:
            raise UnknownId("Launches of no session have no timeline; each has its own page.")
        kinds = timeline.kinds_of(runtime.registry, [kind] if kind else [])
        newest = order != "oldest"
        asked = timeline.Asked(number, kinds, newest=newest, limit=_LIMIT, cursor=cursor)
        found = timeline.timeline(db, runtime.registry, asked)
        following = {"kind": kind, "order": "newest" if newest else "oldest", "cursor": found.next_cursor}
        context: dict[str, Any] = {
            "session": db.get(SessionRow, number), "days": _days(found.data), "kind": kind, "kinds": _KINDS,
            "newest": newest, "following": f"?{urlencode(following)}" if found.next_cursor else None,
        }  # fmt: skip
        return page_of(runtime, "timeline", **common(view_of(runtime, db, number)), **context)

    return for_people(runtime, look)


@router.get("/search")
def search_page(
    runtime: RuntimeDep,
    q: Annotated[str, Query(max_length=2000)] = "",
    session: Annotated[str, Query(max_length=20)] = "",
    cursor: Annotated[str | None, Query(max_length=20)] = None,
) -> Response:
    """What was told and holds these words."""

    def look(db: Session) -> Response:
        number = number_of(db, session) if session else None
        asked = service.question(runtime.registry, q, (), number, 30, cursor)
        found = service.find(db, runtime.registry, asked, MARKS)
        told = [{"fact": one, "name": _marked(_name(one)), "snippet": _marked(one.snippet)} for one in found.data]
        following = {"q": q, "session": session, "cursor": found.next_cursor}
        context: dict[str, Any] = {
            "q": q, "found": found, "told": told,
            "following": f"?{urlencode(following)}" if found.next_cursor else None,
        }  # fmt: skip
        return page_of(runtime, "search", **common(view_of(runtime, db, number)), **context)

    return for_people(runtime, look)


@router.get("/compare/{a}/{b}")
def compare_page(a: str, b: str, runtime: RuntimeDep) -> Response:
    """Two checkpoints by their facts."""

    def look(db: Session) -> Response:
        one, other = find_checkpoint(db, a), find_checkpoint(db, b)
        told = compare.compare(db, runtime.registry, one, other)
        over = {fact.id for fact in told.gone}
        fields = {fact.id: [_field(field) for field in fact.fields] for fact in told.changed}
        parts = (
            (f"Added since {told.older}", told.added),
            ("Changed", [fact for fact in told.changed if fact.id not in over]),
            (f"Holds no more in {told.newer}", told.gone),
        )
        view = view_of(runtime, db, one.session_id)
        return page_of(runtime, "compare", **common(view), told=told, parts=parts, fields=fields)

    return for_people(runtime, look)


def _days(moments: Sequence[Moment]) -> list[tuple[str, list[dict[str, Any]]]]:
    """By day, in the order in which they come."""
    days: dict[str, list[dict[str, Any]]] = {}
    for one in moments:
        told = {"moment": one, "fields": [_change(name, field) for name, field in (one.fields or {}).items()]}
        days.setdefault(f"{one.at:%Y-%m-%d}", []).append(told)
    return list(days.items())


def _change(name: str, field: Any) -> str:
    if not isinstance(field, dict) or not field:
        return name
    return f"{name} {_short(field.get('old'))} → {_short(field.get('new'))}"


def _field(field: Any) -> str:
    return f"{field.name} {_short(field.old)} → {_short(field.new)}" if field.recorded else field.name


def _short(value: Any) -> str:
    text = "nothing" if value is None else ("yes" if value else "no") if isinstance(value, bool) else words(value)
    return text if len(text) <= _LONG else f"{text[:_LONG]}…"


def _name(one: Any) -> str:
    """Without the id before it, which may be what was looked for, alone or with the words that follow."""
    name = str(one.name or "")
    opened = name.startswith(MARKS[0])
    rest = name[opened:].removeprefix(one.id)
    if not one.id[:1].isalpha() or len(rest) == len(name) - opened:
        return name
    rest = rest.removeprefix(MARKS[1]) if rest.startswith(MARKS[1]) else MARKS[0] * opened + rest.lstrip()
    return rest.strip()


def _marked(text: str) -> Markup:
    """What was found stands out; everything else is data."""
    return Markup(_MARKED.sub(r"<mark>\1</mark>", str(escape(text))).translate(_STRAY))
