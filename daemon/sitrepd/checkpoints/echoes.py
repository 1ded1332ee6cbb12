"""Whether what was handed over has arrived: an agent that has read a checkpoint names it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement
from sqlmodel import Session, col, delete, func, or_, select

from sitrepd.checkpoints import words
from sitrepd.checkpoints.models import Delivery
from sitrepd.checkpoints.quote import one_line
from sitrepd.clock import utc_now
from sitrepd.reporting import when
from sitrepd.runtime import Runtime
from sitrepd.sections import Report, Section, of_now
from sitrepd.slices import Registry
from sitrepd.storage import events, ids
from sitrepd.storage.base import Event
from sitrepd.storage.search import SearchEntry

# Who is handed a checkpoint on a screen names it to nobody.
TERMINAL = "terminal"
_NAMED = re.compile(r"\bC([1-9]\d{0,17})\b")
# What an agent tells in its own words; a directive is the user's, and so are most messages.
_TOLD = (
    "finding", "next_step", "benchmark", "artifact", "profile", "training", "reference", "sweep", "launch", "command",
    "model",
)  # fmt: skip
# What a command printed is not what the agent said: it may have printed the checkpoint itself.
_PRINTED = ("output", "output_path", "results")
_RELEVANT = timedelta(hours=24)
_MOST_TO = 40


def named(text: str) -> list[int]:
    """Numbers of the checkpoints that a text names."""
    return [int(number) for number in dict.fromkeys(_NAMED.findall(text))]


async def echo(runtime: Runtime, session_id: int, text: str, conversation: str | None = None) -> list[int]:
    """Mark the deliveries whose checkpoint the text names; their numbers, also of those that were marked before.

    With a conversation, those that went to another one are left alone.
    """
    numbers = named(text)
    if not numbers:
        return []
    query = select(Delivery).where(Delivery.session_id == session_id, col(Delivery.checkpoint_id).in_(numbers))
    if conversation is not None:
        query = query.where(or_(col(Delivery.conversation).is_(None), col(Delivery.conversation) == conversation))

    def job(db: Session) -> list[int]:
        rows = db.exec(query.order_by(col(Delivery.id))).all()
        for row in rows:
            if not row.echoed:
                row.echoed, row.echoed_at = True, utc_now()
                db.add(row)
                changes = {"echoed": {"old": False, "new": True}}
                events.record(db, "delivery.changed", str(row.id), session_id, fields=["echoed"], changes=changes)
        return [row.id or 0 for row in rows]

    return await runtime.store.write_async(job)


def naming(db: Session, registry: Registry, found: Sequence[Event]) -> list[tuple[int, str]]:
    """(session, words) of what agents told in other ways than messages, where these name a checkpoint."""
    told: dict[int, str] = {}
    sessions = {event.id: event.session_id for event in found}
    created: dict[str, dict[int, int]] = {}
    for event in found:
        word, _, what = event.kind.partition(".")
        if word not in _TOLD or word not in registry.by_word or event.session_id is None or event.id is None:
            continue
        if what == "changed":
            changes: Mapping[str, Any] = (event.data or {}).get("changes") or {}
            own = [change.get("new") for name, change in changes.items() if name not in _PRINTED]
            told[event.id] = json.dumps(own, ensure_ascii=False)
        elif what == "created" and (number := _number(event.subject)) is not None:
            created.setdefault(word, {})[number] = event.id
    for word, numbers in created.items():
        for number, text in _words(db, word, registry.by_word[word].table, list(numbers)):
            told[numbers[number]] = f"{told.get(numbers[number], '')} {text}"
    return [(sessions[event] or 0, text) for event, text in told.items() if named(text)]


def _words(db: Session, word: str, table: Any, numbers: Sequence[int]) -> Iterable[tuple[int, str]]:
    """What was imported is history, and an answer to nothing; of a command only the line is the agent's."""
    if word == "command":
        lines = select(table.id, table.command).where(table.id.in_(numbers), table.imported_from.is_(None))
        yield from db.exec(lines).all()
        return
    here = select(table.id).where(table.id.in_(numbers), table.imported_from.is_(None))
    query = select(SearchEntry.number, SearchEntry.name, SearchEntry.text)
    for number, name, text in db.exec(query.where(SearchEntry.kind == word, col(SearchEntry.number).in_(here))).all():
        yield number, f"{name} {text}"


def _number(subject: str) -> int | None:
    parsed = ids.parse_id(subject)
    return parsed[1] if parsed is not None else ids.parse_number(subject)


# --- what is not known to have arrived ---------------------------------------------------------------------------


def not_arrived() -> tuple[ColumnElement[bool], ...]:
    """Hand-overs made here to an agent that neither an answer nor a transcript has proved."""
    return (
        col(Delivery.echoed).is_(False), col(Delivery.proof).is_(None), col(Delivery.imported_from).is_(None),
        col(Delivery.to) != TERMINAL,
    )  # fmt: skip


def lately(db: Session, session_id: int, now: datetime) -> Sequence[Delivery]:
    """Those that have not arrived and were the last of the day to their receiver, newest first."""
    today = (Delivery.session_id == session_id, col(Delivery.at) > now - _RELEVANT)
    last = select(func.max(Delivery.id)).where(*today, col(Delivery.imported_from).is_(None))
    last = last.group_by(col(Delivery.to), col(Delivery.conversation))
    query = select(Delivery).where(col(Delivery.id).in_(last), *not_arrived())
    return db.exec(query.order_by(col(Delivery.id).desc())).all()


def unproved(found: Sequence[Delivery], now: datetime | None = None) -> str | None:
    """One line on the hand-overs that may not have arrived; without the moment it names the time, not the age."""
    if not found:
        return None
    row = found[0]
    age = f", {words.duration((now - row.at).total_seconds())} ago," if now is not None else f" at {when(row.at)}"
    to = one_line(row.to)[:_MOST_TO]
    told = f"Delivery {row.id} of C{row.checkpoint_id} to {to}{age} was not echoed: it may not have arrived."
    more = f" {len(found) - 1} more (`sitrep delivery list --waiting`)." if len(found) > 1 else ""
    return told + more


def report(report: Report) -> Sequence[Section]:
    """A note on what was handed over and never named; it alone makes no new checkpoint."""
    text = unproved(lately(report.db, report.session_id, report.now))
    if text is None:
        return ()
    item: dict[str, Any] = {"kind": "note", "ids": [], "text": text, "what": "a delivery that was not echoed"}
    item |= {"volatile": True, "pinned": False, "priority": 32, "order": 95}
    return (of_now([item]),)


# --- how many are kept -------------------------------------------------------------------------------------------


def beyond(db: Session, session_id: int | None, keep: int) -> list[int]:
    """The oldest deliveries of a session, those beyond the newest `keep`."""
    mine = col(Delivery.session_id).is_(None) if session_id is None else col(Delivery.session_id) == session_id
    query = select(Delivery.id).where(mine).order_by(col(Delivery.id).desc()).offset(keep).limit(1000)
    return [number for number in db.exec(query).all() if number is not None]


def forget(db: Session, session_id: int | None, keep: int) -> int:
    """Drop these with what was recorded of them, so that nothing grows with polling."""
    numbers = beyond(db, session_id, keep)
    if not numbers:
        return 0
    subjects = [str(number) for number in numbers]
    for start in range(0, len(numbers), 400):
        db.exec(delete(Delivery).where(col(Delivery.id).in_(numbers[start : start + 400])))
        told = col(Event.subject).in_(subjects[start : start + 400]) & col(Event.kind).startswith("delivery.")
        db.exec(delete(Event).where(told))
    return len(numbers)
