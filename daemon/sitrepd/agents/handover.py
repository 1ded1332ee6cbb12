"""The checkpoint as it goes into an agent's context: whole, fresh, within what every client lets through."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from sqlmodel import Session, col, select

from sitrepd.agents.conversations import Place
from sitrepd.checkpoints import deliver
from sitrepd.checkpoints.changes import changes_since
from sitrepd.checkpoints.models import Checkpoint, Delivery
from sitrepd.checkpoints.render import to_markdown
from sitrepd.checkpoints.service import checkpoints, latest_number
from sitrepd.clock import iso, utc_now
from sitrepd.runtime import Runtime
from sitrepd.storage import events
from sitrepd.storage.base import Event

# Claude Code replaces a value of more than 10,000 characters by a preview, Codex one of more than 10,000 bytes.
MOST_CHARACTERS = 9_000
MOST_BYTES = 10_000
_KEPT_CHARACTERS = 4_000
_KEPT = ("next_steps", "goal", "root_causes", "decisions", "best")
_COMPACTED = "conversation.compacted"
_MISSED = "conversation.missed"
_ON_ITS_WAY = "agents_on_its_way"
_PATIENCE_S = 0.4


async def hand_over(runtime: Runtime, session_id: int, place: Place, trigger: str, cause: str | None = None) -> str:
    """A checkpoint as of now for an agent; its first line is never the same twice."""
    runtime.activity.touch(session_id)
    if not await asyncio.to_thread(_is_fresh, runtime, session_id):
        await checkpoints(runtime).make(session_id, trigger, cause)
    budget = min(runtime.settings.checkpoint_budget, MOST_CHARACTERS)
    handed = await deliver.resume(runtime, session_id, place.client, budget, MOST_BYTES, place.conversation, "hook")
    return handed.text


def _is_fresh(runtime: Runtime, session_id: int) -> bool:
    """Whether nothing at all has happened since the latest checkpoint, so that it need not be collected anew."""
    with runtime.store.read() as db:
        number = latest_number(db, session_id)
        row = db.get(Checkpoint, number) if number is not None else None
        if row is None:
            return False
        found = changes_since(db, session_id, row.event)
        return not found and not found.forgotten


async def stands_already(runtime: Runtime, session_id: int, place: Place) -> str | None:
    """One line where this very conversation has the latest checkpoint in it, by proof, and nothing has changed."""

    def look() -> str | None:
        with runtime.store.read() as db:
            row = _last_delivery(db, session_id, place)
            if row is None or not (row.proof or row.echoed) or _gone_since(db, row):
                return None
            checkpoint = db.get(Checkpoint, row.checkpoint_id)
            # What was said since stands in the conversation itself.
            if checkpoint is None:
                return None
            found = changes_since(db, session_id, checkpoint.event)
            if found.by_subject or found.forgotten:
                return None
        stands = f"checkpoint C{row.checkpoint_id} stands above (delivery {row.id})"
        return f"Sitrep: {stands}; no fact has changed since, as of {iso(utc_now())}."

    return await asyncio.to_thread(look)


def _last_delivery(db: Session, session_id: int, place: Place) -> Delivery | None:
    if place.conversation is None:
        return None
    query = select(Delivery).where(
        col(Delivery.session_id) == session_id, col(Delivery.conversation) == place.conversation
    )
    return db.exec(query.order_by(col(Delivery.id).desc()).limit(1)).first()


def _gone_since(db: Session, row: Delivery) -> bool:
    """Whether what was handed over was compacted away, or came when nobody waited for it any more."""
    query = select(Event.id).where(
        col(Event.subject) == row.conversation, col(Event.kind).in_((_COMPACTED, _MISSED)), col(Event.at) >= row.at
    )
    return db.exec(query.limit(1)).first() is not None


@asynccontextmanager
async def on_its_way(runtime: Runtime, place: Place) -> AsyncIterator[None]:
    """While a conversation is being handed its checkpoint, until it is known whether it has taken it."""
    known: dict[str, asyncio.Event] = runtime.live.setdefault(_ON_ITS_WAY, {})
    name, over = place.conversation or "", asyncio.Event()
    known[name] = over
    try:
        yield
    finally:
        over.set()
        if known.get(name) is over:
            del known[name]


async def is_lacking(runtime: Runtime, session_id: int, place: Place) -> bool:
    """Whether a checkpoint of its session stands nowhere in this very conversation, and none is on its way.

    Its start may have been before the daemon's, or answered too late: the next hook that can makes up for it.
    """
    if place.conversation is None:
        return False
    known: Mapping[str, asyncio.Event] = runtime.live.get(_ON_ITS_WAY) or {}
    if (over := known.get(place.conversation)) is not None:
        try:
            await asyncio.wait_for(over.wait(), _PATIENCE_S)
        except TimeoutError:
            return False

    def look() -> bool:
        with runtime.store.read() as db:
            row = _last_delivery(db, session_id, place)
            return row is None or _gone_since(db, row)

    return await asyncio.to_thread(look)


async def note_missed(runtime: Runtime, session_id: int, place: Place) -> None:
    """Its client had gone when the answer came."""
    if place.conversation is not None:
        subject = place.conversation
        await runtime.store.write_async(lambda db: events.record(db, _MISSED, subject, session_id))


async def note_compaction(runtime: Runtime, session_id: int, place: Place) -> None:
    """What stood in the conversation before stands there no more."""
    if place.conversation is not None:
        subject = place.conversation
        await runtime.store.write_async(lambda db: events.record(db, _COMPACTED, subject, session_id))


def to_keep(runtime: Runtime, row: Any) -> str:
    """What tells a summariser to keep the pinned facts word for word; the checkpoint itself comes after it."""
    text = _pinned(runtime, row)
    return (
        f"Sitrep hands the whole checkpoint C{row.id} over again right after this compaction: do not copy tables, "
        "commands or measurements into the summary from memory. Keep what follows word for word, with its ids, and "
        "change no number, flag or path in it.\n\n"
        f"{text}\n"
        "Say besides what you were doing at this moment and what you were waiting for, and every wish of the user and "
        "every rejected idea that does not stand above.\n"
    )


def _pinned(runtime: Runtime, row: Any) -> str:
    sections = [section for section in row.rendered["sections"] if section["name"] in _KEPT]
    text = to_markdown({**row.rendered, "sections": sections}, _KEPT_CHARACTERS, checkpoints(runtime).templates)
    begin = text.find("## ")
    return text[begin:] if begin >= 0 else ""


def nothing(why: str) -> str:
    """The one honest line where there is no checkpoint to give."""
    return f"Sitrep has no checkpoint for this conversation: {why}"
