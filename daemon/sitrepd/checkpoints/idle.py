"""When checkpoints are made without being asked for: the session idles while something loads, or something happened."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from sqlmodel import Session, col, select

from sitrepd.checkpoints import deliver
from sitrepd.checkpoints.service import checkpoints
from sitrepd.errors import SitrepError
from sitrepd.runtime import Runtime
from sitrepd.services import Service
from sitrepd.sessions.models import Message, SessionRow
from sitrepd.storage import events, ids
from sitrepd.storage.base import Event

log = logging.getLogger(__name__)
_LOADING = ("starting", "loading", "capturing", "warming")
_ENDS = ("ready", "failed", "exited", "lost")
_SETTLE_S = 0.2
_BATCH = 500


@dataclass(frozen=True)
class Trigger:
    """Why a checkpoint of a session is made: one word, and what caused it."""

    name: str
    causes: tuple[str, ...] = ()

    @property
    def cause(self) -> str | None:
        return ", ".join(self.causes) or None


@dataclass(frozen=True)
class Happened:
    """An event of the log; `text` is that of a message that counts, `closed` says that a session was closed."""

    kind: str
    subject: str
    session_id: int | None
    data: Mapping[str, Any]
    text: str | None = None
    closed: bool = False


class Watch(Service):
    """Looks every `idle_check_s` whether a session idles, and reads the event log as it grows."""

    name = "checkpoints"

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._idle_told: dict[int | None, tuple[float, frozenset[int]]] = {}
        with runtime.store.read() as db:
            self._cursor = _written_down_until(db)

    async def run(self) -> None:
        store, scheduler = self._runtime.store, self._runtime.scheduler
        assert scheduler is not None
        seconds = self._runtime.settings.idle_check_s
        job = scheduler.add_job(self.check_idle, "interval", seconds=seconds, id="idle", replace_existing=True)
        try:
            await self.read_events()
            async with aclosing(store.bell.listen()) as bell:
                async for _ in bell:
                    await asyncio.sleep(_SETTLE_S)  # what happens together is told together
                    await self.read_events()
        finally:
            if scheduler.get_job(job.id) is not None:
                job.remove()

    # --- idle ----------------------------------------------------------------------------------------------------

    async def check_idle(self) -> None:
        """One checkpoint for each time that a session falls idle while the same launches load."""
        live: Mapping[int, Any] = self._runtime.live.get("launches") or {}
        loading = [number for number, launch in live.items() if launch.state in _LOADING]
        if not loading:
            self._idle_told.clear()
            return
        for session_id, numbers in (await asyncio.to_thread(self._by_session, loading)).items():
            await self._if_idle(session_id, numbers, live)

    def _by_session(self, loading: Sequence[int]) -> dict[int, frozenset[int]]:
        table: Any = self._runtime.registry.by_word["launch"].table
        query = select(table.id, table.session_id).where(col(table.id).in_(loading), col(table.session_id).is_not(None))
        found: dict[int, frozenset[int]] = {}
        with self._runtime.store.read() as db:
            for number, session_id in db.exec(query).all():
                found[session_id] = found.get(session_id, frozenset()) | {number}
        return found

    async def _if_idle(self, session_id: int, numbers: frozenset[int], live: Mapping[int, Any]) -> None:
        activity = self._runtime.activity
        moment = (activity.last(session_id), numbers)
        idle = activity.idle_s(session_id) >= self._runtime.settings.idle_after_s
        if not idle or self._idle_told.get(session_id) == moment:
            return
        self._idle_told[session_id] = moment
        states = (f"{ids.public_id('L', number)} {live[number].state}" for number in sorted(numbers) if number in live)
        await self._make(session_id, Trigger("idle", tuple(states)))

    # --- what happened -------------------------------------------------------------------------------------------

    async def read_events(self) -> None:
        """Make a checkpoint of each session in which something happened that is worth one."""
        while True:
            found = await asyncio.to_thread(self._new_events)
            for session_id, trigger in triggers(found).items():
                await self._make(session_id, trigger)
            for one in found:
                await self._follow(one)
            if len(found) < _BATCH:
                return

    def _new_events(self) -> list[Happened]:
        with self._runtime.store.read() as db:
            found = events.events_after(db, self._cursor, limit=_BATCH)
            told = happened(db, found)
        if found:
            self._cursor = found[-1].id or self._cursor
        return told

    async def _follow(self, one: Happened) -> None:
        if one.session_id is None:
            return
        if one.kind == "folder.tied":
            row = await checkpoints(self._runtime).latest(one.session_id)
            await checkpoints(self._runtime).write_files(one.session_id, row.markdown)
        elif one.text:
            await deliver.echo(self._runtime, one.session_id, one.text)

    async def _make(self, session_id: int, trigger: Trigger) -> None:
        try:
            await checkpoints(self._runtime).make(session_id, trigger.name, trigger.cause)
        except Exception as error:
            why = error.detail if isinstance(error, SitrepError) else repr(error)
            log.warning("no checkpoint of S%d could be made (%s): %s", session_id, trigger.name, why)


def _written_down_until(db: Session) -> int:
    """The event of the latest checkpoint: what came after it may have been missed when the daemon died."""
    latest = select(Event.id).where(Event.kind == "checkpoint.created").order_by(col(Event.id).desc()).limit(1)
    return db.exec(latest).first() or events.last_event_id(db)


def triggers(found: Sequence[Happened]) -> dict[int, Trigger]:
    """For each session the last of the events that is worth a checkpoint, with all causes of that kind."""
    by_session: dict[int, Trigger] = {}
    for one in found:
        trigger = trigger_of(one)
        if trigger is None or one.session_id is None:
            continue
        before = by_session.get(one.session_id)
        causes = (before.causes if before is not None and before.name == trigger.name else ()) + trigger.causes
        by_session[one.session_id] = Trigger(trigger.name, tuple(dict.fromkeys(causes)))
    return by_session


def trigger_of(one: Happened) -> Trigger | None:
    """What an event is worth."""
    state = one.data.get("state")
    if one.kind in ("launch.changed", "launch.created") and state in _ENDS:
        return Trigger(state, (f"{one.subject} {state}",))
    if one.closed:
        return Trigger("closed", (f"{one.subject} closed",))
    if one.text is not None and not one.text.strip():
        return Trigger("empty message")
    return None


def happened(db: Session, found: Sequence[Event]) -> list[Happened]:
    """Events with what must be read from rows: texts of messages that were told, sessions that are closed now."""
    texts = _texts(db, [event.subject for event in found if event.kind == "message.created"])
    changed = {event.subject for event in found if _may_close(event)}
    query = select(SessionRow.id).where(col(SessionRow.ended_at).is_not(None))
    closed = {f"S{number}" for number in db.exec(query).all()} & changed if changed else set()
    return [
        Happened(
            event.kind,
            event.subject,
            int(event.subject[1:]) if _may_close(event) else event.session_id,
            event.data or {},
            texts.get(event.subject) if event.kind == "message.created" else None,
            _may_close(event) and event.subject in closed,
        )
        for event in found
    ]


def _may_close(event: Event) -> bool:
    return event.kind == "session.changed" and "ended_at" in (event.data or {}).get("fields", ())


def _texts(db: Session, subjects: Sequence[str]) -> dict[str, str]:
    """Empty messages of the user, and what the assistant said; imported ones are history."""
    numbers = [int(subject) for subject in subjects if subject.isdigit()]
    if not numbers:
        return {}
    told = select(Message.id, Message.role, Message.text).where(col(Message.id).in_(numbers))
    return {
        str(number): text
        for number, role, text in db.exec(told.where(col(Message.imported_from).is_(None))).all()
        if (role == "assistant" and text.strip()) or (role == "user" and not text.strip())
    }
