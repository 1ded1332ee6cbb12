"""Proof of delivery from the transcript that a client keeps: what it put before the model stands there."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import stat
from pathlib import Path

from sqlmodel import Session, col, select

from sitrepd.agents.conversations import Place
from sitrepd.checkpoints.models import Delivery
from sitrepd.runtime import Runtime
from sitrepd.storage import events

log = logging.getLogger(__name__)
_MOST_BYTES = 32 << 20
_HANDED = re.compile(rb"Sitrep C(\d+) \xc2\xb7 [^\n]{0,400}? as delivery (\d+),|"
                     rb"Sitrep C(\d+) \\u00b7 [^\n]{0,400}? as delivery (\d+),")  # fmt: skip
_PREVIEW = b"<persisted-output>"
_KINDS = (b"hook_additional_context", b'"developer"', b"hook_context")


async def prove(runtime: Runtime, session_id: int, place: Place) -> list[int]:
    """Mark the deliveries to this conversation that its transcript holds whole; their numbers."""
    if place.conversation is None or place.transcript is None or place.hint.host is not None:
        return []
    waiting = await asyncio.to_thread(_waiting, runtime, place.conversation)
    found = await asyncio.to_thread(delivered, Path(place.transcript)) & waiting if waiting else set()
    if not found:
        return []

    def job(db: Session) -> list[int]:
        rows = db.exec(select(Delivery).where(col(Delivery.id).in_(found))).all()
        for row in rows:
            row.proof = "transcript"
            db.add(row)
            events.record(db, "delivery.changed", str(row.id), session_id, fields=["proof"])
        return [row.id or 0 for row in rows]

    return await runtime.store.write_async(job)


def _waiting(runtime: Runtime, conversation: str) -> set[int]:
    """The latest that went by a hook: what was asked for in another way does not stand there as a hook's text."""
    query = select(Delivery.id).where(
        col(Delivery.conversation) == conversation, col(Delivery.channel) == "hook", col(Delivery.proof).is_(None)
    )
    with runtime.store.read() as db:
        return {number for number in db.exec(query.order_by(col(Delivery.id).desc()).limit(20)).all() if number}


def delivered(path: Path) -> set[int]:
    """Numbers of the deliveries in the last part of a transcript, each in a line that says what a hook gave."""
    found: set[int] = set()
    for line in _lines(path):
        if not any(kind in line for kind in _KINDS) or _PREVIEW in line:
            continue
        found |= {int(one[1] or one[3]) for one in _HANDED.findall(line)}
    return found


def _lines(path: Path) -> list[bytes]:
    """The whole lines at the end of a regular file; nothing where it cannot be read, as from another machine."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return []
    with open(descriptor, "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            return []
        skipped = max(0, about.st_size - _MOST_BYTES)
        file.seek(skipped)
        lines = file.read(_MOST_BYTES).split(b"\n")
    return lines[1:] if skipped else lines
