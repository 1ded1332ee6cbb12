"""The stops that are under way: each written down before its signal, so that the next daemon goes on with it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from sqlmodel import Session

from sitrepd.clock import iso, utc_now
from sitrepd.errors import Conflict
from sitrepd.launches.launchers.local import LocalLauncher
from sitrepd.launches.models import Launch
from sitrepd.launches.processes import Stat
from sitrepd.launches.stop import StopLadder
from sitrepd.launches.watch import Watch
from sitrepd.storage import events, ids
from sitrepd.storage.store import Store

log = logging.getLogger(__name__)


class Stops:
    """`under_way` and `watches` are by the number of the launch."""

    def __init__(self, store: Store, watches: Mapping[int, Watch]) -> None:
        self._store = store
        self._watches = watches
        self._launcher = LocalLauncher()
        self.under_way: dict[int, StopLadder] = {}

    async def ask(self, number: int, grace_s: float | None) -> None:
        """Raises Conflict for a launch that is not watched."""
        if number not in self._watches:
            raise Conflict(
                f"{ids.public_id('L', number)} does not run on this host, or is not watched: nothing to stop."
            )
        if number in self.under_way:
            return
        # First what is meant, then the signal: a daemon that dies in between goes on with it when it is back.
        await self._store.write_async(lambda db: _record(db, number, grace_s))
        await self._begin(number, grace_s)

    async def go_on(self, row: Launch) -> None:
        """With what an earlier daemon was asked for."""
        process = row.process or {}
        if "stop_asked_at" in process:
            await self._begin(row.id or 0, process.get("stop_grace_s"))

    async def _begin(self, number: int, grace_s: float | None) -> None:
        watch = self._watches.get(number)
        if watch is None or number in self.under_way:
            return
        watch.stopping = True
        steps = watch.engine.stop_signals
        ladder = StopLadder(self._launcher, watch.launched, grace_s if grace_s is not None else steps[0].grace_s)
        if watch.main is not None and not watch.readiness.hidden:
            ladder.knows(watch.main)
        self.under_way[number] = ladder
        await asyncio.to_thread(ladder.ask)

    async def step(self) -> None:
        """Look at each once."""
        for number, ladder in list(self.under_way.items()):
            try:
                if await asyncio.to_thread(ladder.step) == "stopped":
                    del self.under_way[number]
            except Exception:
                log.exception("L%d cannot be stopped", number)

    def owners(self, stats: Mapping[int, Stat]) -> dict[int, int]:
        """The launch that each process which is being stopped belongs to, by pid."""
        found: dict[int, int] = {}
        for number, ladder in self.under_way.items():
            found |= dict.fromkeys(ladder.tree(stats), number)
        return found


def _record(db: Session, number: int, grace_s: float | None) -> None:
    row = db.get(Launch, number)
    if row is not None:
        row.process = {**(row.process or {}), "stop_asked_at": iso(utc_now()), "stop_grace_s": grace_s}
        db.add(row)
        events.record(db, "launch.changed", ids.public_id("L", number), row.session_id, stop="asked")
