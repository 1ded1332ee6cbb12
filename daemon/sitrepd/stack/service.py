"""The software of each launch on this host, asked for once, when it starts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING

from sqlmodel import Session, col, select

from sitrepd.clock import utc_now
from sitrepd.facts import Scope, create
from sitrepd.launches.models import Launch
from sitrepd.runtime import Runtime
from sitrepd.services import Service
from sitrepd.stack.background import run_nicely
from sitrepd.stack.models import Stack, StackCreate
from sitrepd.storage import events, ids

if TYPE_CHECKING:
    from sitrepd.stack.probe import StackReading

# A commit between a look and the wait for the bell would go unnoticed until the next one.
_LOOKS_ANYWAY_S = 10.0


class Stacks(Service):
    """One launch after another: asking takes a second of a processor, which a loading server needs more."""

    name = "stack"

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    async def run(self) -> None:
        """Those that run without one first, then every new one."""
        with self.runtime.store.read() as db:
            cursor = events.last_event_id(db)
            waiting = unknown(db)
        async with aclosing(self.runtime.store.bell.listen(_LOOKS_ANYWAY_S)) as bell:
            while True:
                for number in waiting:
                    await self.probe(number)
                if await anext(bell, None) is None:
                    return
                with self.runtime.store.read() as db:
                    cursor, waiting = created(db, cursor)

    async def probe(self, number: int) -> None:
        """Ask the launch's interpreter and store the answer, unless there is one."""
        from sitrepd.stack.launched import Told, read_stack

        with self.runtime.store.read() as db:
            row = db.get(Launch, number)
            if row is None or not row.watched or has_stack(db, number):
                return
        told = Told(row.argv, row.command, row.env, row.cwd, (row.process or {}).get("identity"))
        reading = await run_nicely(partial(read_stack, told))
        await self.runtime.store.write_async(lambda db: self._store(db, number, reading))

    def _store(self, db: Session, number: int, reading: StackReading) -> None:
        launch = db.get(Launch, number)
        if launch is None or has_stack(db, number):
            return
        fields = reading.stack_fields()
        fields["driver"] = getattr(self.runtime.live.get("hardware"), "driver", None) or reading.driver
        host_id = launch.host_id or self.runtime.host_id
        fields |= {"launch": ids.public_id("L", number), "host": ids.public_id("H", host_id) if host_id else None}
        told = StackCreate.model_validate({name: value for name, value in fields.items() if value is not None})
        scope = Scope(self.runtime.registry, "observed", launch.session_id, now=utc_now())
        row: Stack = create(db, self.runtime.registry.by_word["stack"], told, scope)
        row.note = reading.note
        db.add(row)


def unknown(db: Session) -> Sequence[int]:
    """Launches that run on this host without a stack; the software of an ended one may have changed since."""
    known = select(Stack.launch_id).where(col(Stack.launch_id).is_not(None))
    query = select(Launch.id).where(col(Launch.watched).is_(True), col(Launch.ended_at).is_(None))
    return [number for number in db.exec(query.where(col(Launch.id).not_in(known))).all() if number is not None]


def created(db: Session, cursor: int) -> tuple[int, Sequence[int]]:
    """(the last event, launches created since `cursor`)"""
    last = events.last_event_id(db)
    if last == cursor:
        return cursor, ()
    parsed = [ids.parse_id(subject) for subject in events.subjects_since(db, cursor, "launch.created")]
    return last, [found[1] for found in parsed if found is not None]


def has_stack(db: Session, number: int) -> bool:
    return db.exec(select(Stack.id).where(Stack.launch_id == number).limit(1)).first() is not None
