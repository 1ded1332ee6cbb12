"""When the daemon was not there to observe: a file that is touched as long as it is, and a line on each gap."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from sqlmodel import col, select

from sitrepd.checkpoints.words import duration
from sitrepd.clock import iso
from sitrepd.reporting import when
from sitrepd.runtime import Runtime
from sitrepd.sections import Report, Section, of_now
from sitrepd.services import Service
from sitrepd.storage import events
from sitrepd.storage.base import Event

_TOUCH_S = 10.0
_GAP_S = 60.0
_KIND, _SUBJECT = "daemon.gap", "daemon"
_SHOWN = 3


class Presence(Service):
    """Notes each time for which no daemon ran, or this one did not come to work, of a minute and more."""

    name = "presence"

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._file = runtime.settings.data_dir / "alive"

    async def run(self) -> None:
        await self._note_from(await asyncio.to_thread(last_seen, self._file), "the daemon did not run")
        while True:
            seen = time.time()
            await asyncio.to_thread(_touch, self._file)
            await asyncio.sleep(_TOUCH_S)
            await self._note_from(seen + _TOUCH_S, "this machine slept, or the daemon did not come to work")

    async def _note_from(self, seen: float | None, why: str) -> None:
        now = time.time()
        if seen is None or now - seen < _GAP_S:
            return
        since, until = (iso(datetime.fromtimestamp(moment, UTC)) for moment in (seen, now))
        await self._runtime.store.write_async(
            lambda db: events.record(db, _KIND, _SUBJECT, None, since=since, until=until, why=why)
        )


def last_seen(file: Path) -> float | None:
    """When a daemon last touched the file; None where none ever did."""
    try:
        return file.stat().st_mtime
    except OSError:
        return None


def _touch(file: Path) -> None:
    try:
        os.utime(file)
    except OSError:
        file.touch(mode=0o600)


def report(report: Report) -> Sequence[Section]:
    """The latest gaps in the life of a session that is observed here; what happened in them is not known."""
    if report.session.imported_from is not None:
        return ()
    query = select(Event.data).where(Event.subject == _SUBJECT, Event.kind == _KIND, Event.at >= report.session.at)
    found = report.db.exec(query.order_by(col(Event.id).desc()).limit(_SHOWN)).all()
    items = [
        {"kind": "gap", "ids": [], "what": "a time without observation", "why": gap["why"], "order": 45 + place}
        | {"since": when(_time(gap["since"])), "until": when(_time(gap["until"])), "took": _took(gap)}
        | {"pinned": False, "priority": 27}
        for place, gap in enumerate(reversed(found))
    ]
    return [of_now(items)] if items else ()


def _took(gap: dict[str, str]) -> str:
    return duration((_time(gap["until"]) - _time(gap["since"])).total_seconds())


def _time(told: str) -> datetime:
    return datetime.fromisoformat(told)
