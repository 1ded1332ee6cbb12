"""Asks every slice for its sections within one read transaction, and makes one section model of them."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlmodel import Session

from sitrepd.checkpoints import changes, rejected
from sitrepd.checkpoints.contradictions import contradictions
from sitrepd.checkpoints.here import differences
from sitrepd.checkpoints.quote import clean, is_clean
from sitrepd.errors import UnknownId
from sitrepd.sections import Report, Section, of_now
from sitrepd.sessions.models import SessionRow
from sitrepd.slices import Registry
from sitrepd.storage import events, ids

log = logging.getLogger(__name__)
_OWN = frozenset({"changes"})


@dataclass(frozen=True)
class Collected:
    """The section model at full size; `digest` is over the facts alone, `event` is the last one that was seen."""

    session: str
    name: str
    sections: list[Section]
    digest: str
    event: int


def collect(
    db: Session,
    registry: Registry,
    session_id: int,
    now: datetime,
    live: Mapping[str, Any] | None = None,
    since: changes.Since | None = None,
) -> Collected:
    """All sections of a session that have something to say, in the order of the text."""
    session = db.get(SessionRow, session_id)
    if session is None:
        raise UnknownId(f"There is no session S{session_id}.")
    report = Report(db, registry, session_id, session, now, since.at if since else None, live or {})
    found = [section for part in registry.slices for section in _ask(part.name, part.report, report)]
    found += changes.sections(db, session_id, since)
    merged = _merged(found)
    for section in merged:
        if not is_clean(json.dumps([section.items, section.data])):
            section.items, section.data = clean(section.items), clean(section.data)
    merged = _with_contradictions(report, merged)
    _tell_once(merged)
    return Collected(
        ids.public_id("S", session_id), session.name, merged, digest(merged), events.last_event_id(db)
    )  # fmt: skip


def _ask(name: str, say: Any, report: Report) -> Iterable[Section]:
    """A slice that fails costs its own part, and says so."""
    try:
        return say(report)  # type: ignore[no-any-return]
    except Exception as error:
        log.exception("the report of %s failed", name)
        text = f"What {name} says could not be collected ({type(error).__name__}); the daemon's log has the details."
        item = {"kind": "note", "ids": [], "text": text, "what": f"failure of {name}", "order": 90}
        return [of_now([item])]


def _merged(found: Sequence[Section]) -> list[Section]:
    """Several slices may add to one section; empty ones are left out."""
    by_name: dict[str, Section] = {}
    for section in found:
        into = by_name.setdefault(section.name, section)
        if into is not section:
            into.items = [*into.items, *section.items]
            into.data = into.data | section.data
    return sorted((one for one in by_name.values() if one.items or one.data.get("earlier")), key=lambda one: one.order)


def _with_contradictions(report: Report, sections: list[Section]) -> list[Section]:
    """What does not go together is told where it was told, and once more as such."""
    try:
        rejected.mark(sections)
        found = contradictions(sections, differences(report, sections))
    except Exception:
        log.exception("the contradictions could not be found")
        return sections
    return sorted([*sections, *found], key=lambda one: one.order)


def _tell_once(sections: Sequence[Section]) -> None:
    """A command that stands in a weightier place is only pointed to in the others."""
    told: dict[str, str] = {}
    commands = [
        (not item.get("pinned", section.pinned), item.get("priority", section.priority), place, number)
        for place, section in enumerate(sections)
        for number, item in enumerate(section.items)
        if item.get("kind") == "command"
    ]
    again: dict[int, set[int]] = {}
    for *_, place, number in sorted(commands):
        launch = sections[place].items[number]["launch"]
        if launch in told:
            again.setdefault(place, set()).add(number)
        else:
            told[launch] = sections[place].title
    for place, numbers in again.items():
        sections[place].items = [item for number, item in enumerate(sections[place].items) if number not in numbers]
    for section in sections:
        for item in section.items:
            if item.get("kind") == "launch" and item["id"] in told and section.title != told[item["id"]]:
                item["command_in"] = told[item["id"]]
                item.pop("command", None)


def digest(sections: Sequence[Section]) -> str:
    """SHA-256 over what makes a new checkpoint: no `live` values, no volatile items, not what has changed since."""
    told = [
        {
            "name": section.name,
            "data": section.data,
            "items": [
                item if "live" not in item else {name: value for name, value in item.items() if name != "live"}
                for item in section.items
                if not item.get("volatile")
            ],
        }
        for section in sections
        if section.name not in _OWN
    ]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()
