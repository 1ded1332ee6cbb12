"""The event log: one row a change, and a bell that rings after each commit."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from sqlmodel import Session, col, delete, func, select

from sitrepd.storage.base import Counter, Event

_TOUCHED = "sitrep.touched"
_FORGOTTEN = "forgotten event"
_LAST = select(func.max(Event.id))


def record(db: Session, kind: str, subject: str, session_id: int | None, **data: Any) -> None:
    """Write down that `subject` (a public id) changed, in the caller's transaction."""
    db.add(Event(kind=kind, subject=subject, session_id=session_id, data=data))
    db.info.setdefault(_TOUCHED, []).append((kind, subject))


def touched(db: Session) -> list[tuple[str, str]]:
    """(kind, subject) of what was recorded in this session of the database."""
    found: list[tuple[str, str]] = db.info.get(_TOUCHED, [])
    return found


def last_event_id(db: Session) -> int:
    return db.exec(_LAST).one() or 0


def subjects_since(db: Session, cursor: int, kinds: str) -> list[str]:
    """The public ids of what has changed after `cursor`, by events whose kind begins with `kinds`."""
    query = select(Event.subject).where(col(Event.id) > cursor, col(Event.kind).startswith(kinds))
    return list(dict.fromkeys(db.exec(query.order_by(col(Event.id))).all()))


def events_after(db: Session, cursor: int, session_id: int | None = None, limit: int = 500) -> Sequence[Event]:
    """Events in order of commit after `cursor`; with a session, its own and those that belong to none."""
    query = select(Event).where(col(Event.id) > cursor).order_by(col(Event.id)).limit(limit)
    if session_id is not None:
        query = query.where((col(Event.session_id) == session_id) | (col(Event.session_id).is_(None)))
    return db.exec(query).all()


def forget(db: Session, *conditions: Any) -> int:
    """Drop the events that meet these conditions, and remember up to which id there may be gaps."""
    last = db.exec(select(func.max(Event.id)).where(*conditions)).one()
    if last is None:
        return 0
    dropped = db.exec(delete(Event).where(*conditions)).rowcount
    counter = db.get(Counter, _FORGOTTEN) or Counter(word=_FORGOTTEN)
    counter.last = max(counter.last, last)
    db.add(counter)
    return int(dropped)


def last_forgotten(db: Session) -> int:
    """The last event that was dropped; those after it are whole."""
    counter = db.get(Counter, _FORGOTTEN)
    return counter.last if counter is not None else 0


class Bell:
    """Wakes coroutines of one event loop when a commit has happened, from whichever thread."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: WeakKeyDictionary[asyncio.Event, tuple[str, ...]] = WeakKeyDictionary()
        self.closed = False
        self.commits = 0

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def ring(self, kinds: Collection[str] = ()) -> None:
        """Tell of a commit, and of which kinds the events are that it has recorded."""
        self.commits += 1  # by the write thread alone, before anybody learns of the commit
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._wake, kinds)

    def close(self) -> None:
        """End every listener; called in the loop when the daemon stops."""
        self.closed = True
        for event in self._waiting:
            event.set()

    def _wake(self, kinds: Collection[str]) -> None:
        for event, wanted in self._waiting.items():
            if not wanted or any(kind.startswith(wanted) for kind in kinds):
                event.set()

    def listen(self, quiet_s: float | None = None, *wanted: str) -> Listener:
        """Yield True after each commit (several may share one), False after `quiet_s` without any; ends on close.

        Counted are commits from this call on, not from the first wait: who looks at the store in between misses none.
        With `wanted`, only those that have recorded an event whose kind begins so: a training run that is told step by
        step, or a sample each second, would else wake everybody.
        """
        event = asyncio.Event()
        self._waiting[event] = wanted
        return Listener(self, event, quiet_s)


class Listener:
    """One coroutine's ear at the bell, which forgets it with its last reference."""

    def __init__(self, bell: Bell, event: asyncio.Event, quiet_s: float | None) -> None:
        self._bell = bell
        self._event = event
        self._quiet_s = quiet_s
        self._left = False

    def __aiter__(self) -> Listener:
        return self

    async def __anext__(self) -> bool:
        if self._left or self._bell.closed:
            raise StopAsyncIteration
        try:
            # Not wait_for, which may swallow a cancellation that comes as the bell rings (until Python 3.12).
            async with asyncio.timeout(self._quiet_s):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        if self._bell.closed:
            raise StopAsyncIteration
        return True

    async def aclose(self) -> None:
        self._left = True
