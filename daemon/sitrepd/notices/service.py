"""Reads the event log as it grows, and sends what is worth a notice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

from sitrepd.notices import notes
from sitrepd.notices.models import Notice
from sitrepd.notices.send import Sender
from sitrepd.notices.targets import targets
from sitrepd.runtime import Runtime
from sitrepd.services import Service
from sitrepd.storage import events

# The reason of a failure is told a moment after it.
_SETTLE_S = 1.5
_BATCH = 500


class Notices(Service):
    """Only there where a setting names somebody to tell."""

    name = "notices"

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._wanted = frozenset(runtime.settings.notify_on)
        self._senders = [Sender(target) for target in targets(runtime.settings)]
        with runtime.store.read() as db:
            self._cursor = events.last_event_id(db)

    async def run(self) -> None:
        async with aclosing(self._runtime.store.bell.listen()) as bell:
            async for _ in bell:
                await asyncio.sleep(_SETTLE_S)
                self.send(await asyncio.to_thread(self._new))

    def send(self, found: Sequence[Notice]) -> None:
        """Hand those that are wanted to the senders."""
        for notice in found:
            if notice.kind in self._wanted:
                for sender in self._senders:
                    sender.send(notice)

    def _new(self) -> list[Notice]:
        found: list[Notice] = []
        with self._runtime.store.read() as db:
            while batch := events.events_after(db, self._cursor, limit=_BATCH):
                self._cursor = batch[-1].id or self._cursor
                found += notes.notices(db, self._runtime.registry, batch)
        return found
