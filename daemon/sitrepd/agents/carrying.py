"""A text that goes with every request of a conversation: the same, to the byte, while no fact changes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from sitrepd.agents import doings
from sitrepd.agents.call import Call
from sitrepd.checkpoints.changes import changes_since
from sitrepd.checkpoints.models import Checkpoint
from sitrepd.checkpoints.service import latest_number
from sitrepd.storage import events

_HERE = "agents_carried"
_MOST = 256


@dataclass(frozen=True)
class Carried:
    """The text of a conversation, and the last event that it knows of."""

    session_id: int
    event: int
    text: str


async def carried(call: Call, source: str) -> str:
    """The checkpoint to carry; handed over anew once a fact of the session has changed."""
    known: dict[str, Carried] = call.runtime.live.setdefault(_HERE, {})
    name = call.place.conversation or ""
    found = known.get(name)
    if found is None or found.session_id != call.session_id or await asyncio.to_thread(_changed, call, found):
        answer = await doings.begins(call, source, None)
        event = await asyncio.to_thread(_event, call)
        if len(known) >= _MOST:
            known.clear()
        found = known[name] = Carried(call.session_id, event, answer.text)
    return found.text


def carry_anew(call: Call) -> None:
    """The next request gets a fresh one."""
    call.runtime.live.setdefault(_HERE, {}).pop(call.place.conversation or "", None)


def _changed(call: Call, found: Carried) -> bool:
    with call.runtime.store.read() as db:
        return bool(changes_since(db, call.session_id, found.event).by_subject)


def _event(call: Call) -> int:
    with call.runtime.store.read() as db:
        number = latest_number(db, call.session_id)
        row = db.get(Checkpoint, number) if number is not None else None
        return row.event if row is not None else events.last_event_id(db)
