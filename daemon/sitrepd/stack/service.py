"""The software of each launch on this host, asked for as it starts, and again once it is seen what serves."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from sqlmodel import Session, col, select

from sitrepd.clock import utc_now
from sitrepd.facts import Scope, create, update
from sitrepd.launches.models import Launch
from sitrepd.runtime import Runtime
from sitrepd.services import Service
from sitrepd.stack.background import run_nicely
from sitrepd.stack.models import Stack, StackCreate, StackUpdate
from sitrepd.storage import events, ids
from sitrepd.storage.base import Event

if TYPE_CHECKING:
    from sitrepd.stack.probe import StackReading

# A commit between a look and the wait for the bell would go unnoticed until the next one.
_LOOKS_ANYWAY_S = 10.0


class Stacks(Service):
    """One launch after another: asking takes a second of a processor, which a loading server needs more."""

    name = "stack"

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._asked: dict[int, tuple[str | None, ...]] = {}

    async def run(self) -> None:
        """Those that run without one first, then every new one."""
        with self.runtime.store.read() as db:
            cursor = events.last_event_id(db)
            waiting = unknown(db)
        async with aclosing(self.runtime.store.bell.listen(_LOOKS_ANYWAY_S, "launch.")) as bell:
            while True:
                for number in waiting:
                    await self.probe(number)
                if await anext(bell, None) is None:
                    return
                with self.runtime.store.read() as db:
                    cursor, waiting = since(db, cursor)

    async def probe(self, number: int) -> None:
        """Ask the launch's interpreter and store the answer, unless there is one that still holds."""
        from sitrepd.stack.launched import Told, interpreter
        from sitrepd.stack.probe import probe_interpreter

        with self.runtime.store.read() as db:
            row = db.get(Launch, number)
            if row is None or not row.watched or not is_due(db, row):
                return
        process = row.process or {}
        told = Told(row.argv, row.command, row.env, row.cwd, process.get("identity"), process.get("main"))
        found = await run_nicely(partial(interpreter, told))
        key = (found.path, found.reason, found.cwd, found.first_path, found.env.get("PYTHONPATH"))
        if self._asked.get(number) == key:
            return
        self._asked[number] = key
        reading = await run_nicely(partial(probe_interpreter, found))
        await self.runtime.store.write_async(lambda db: self._store(db, number, reading))

    def _store(self, db: Session, number: int, reading: StackReading) -> None:
        launch = db.get(Launch, number)
        if launch is None or not is_due(db, launch):
            return
        row = newest(db, number)
        fields = reading.stack_fields()
        fields["driver"] = getattr(self.runtime.live.get("hardware"), "driver", None) or reading.driver
        host_id = launch.host_id or self.runtime.host_id
        fields |= {"launch": ids.public_id("L", number), "host": ids.public_id("H", host_id) if host_id else None}
        scope = Scope(self.runtime.registry, "observed", launch.session_id, now=utc_now())
        noun = self.runtime.registry.by_word["stack"]
        if row is None:
            told = {name: value for name, value in fields.items() if value is not None}
            row = create(db, noun, StackCreate.model_validate(told), scope)
        else:
            update(db, noun, row, StackUpdate.model_validate(fields), scope)
            row.observed_at = utc_now()
        row.note = reading.note
        db.add(row)


def unknown(db: Session) -> Sequence[int]:
    """Launches that run on this host without a stack of theirs; the software of an ended one may have changed since."""
    rows = db.exec(select(Launch).where(col(Launch.watched).is_(True), col(Launch.ended_at).is_(None))).all()
    return [row.id for row in rows if row.id is not None and is_due(db, row)]


def since(db: Session, cursor: int) -> tuple[int, Sequence[int]]:
    """(the last event, launches created since `cursor`, and those whose serving process was seen since)"""
    last = events.last_event_id(db)
    if last == cursor:
        return cursor, ()
    query = select(Event).where(col(Event.id) > cursor, col(Event.kind).in_(("launch.created", "launch.changed")))
    found = db.exec(query.order_by(col(Event.id))).all()
    subjects = [one.subject for one in found if one.kind == "launch.created" or "main" in one.data]
    parsed = [ids.parse_id(subject) for subject in dict.fromkeys(subjects)]
    return last, [told[1] for told in parsed if told is not None]


def is_due(db: Session, launch: Launch) -> bool:
    """Whether there is no stack, or one observed before it was seen which process of the launch serves."""
    row = newest(db, launch.id or 0)
    seen_at = ((launch.process or {}).get("main") or {}).get("at")
    if row is None or seen_at is None:
        return row is None
    return row.provenance == "observed" and row.observed_at < datetime.fromisoformat(seen_at)


def newest(db: Session, number: int) -> Stack | None:
    """What the launch is known to run on."""
    return db.exec(select(Stack).where(Stack.launch_id == number).order_by(col(Stack.id).desc()).limit(1)).first()
