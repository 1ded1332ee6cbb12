"""Whose a found server is: a launch of its own, the server inside another launch, or what one has left alone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from sitrepd.clock import utc_now
from sitrepd.launches.discovery import adopt, heirs, inside
from sitrepd.launches.discovery.details import Details
from sitrepd.launches.discovery.find import Server
from sitrepd.launches.followed import Followed
from sitrepd.launches.starts import Starts
from sitrepd.launches.stops import Stops
from sitrepd.launches.watch import Outcome, Watch
from sitrepd.runtime import Runtime

log = logging.getLogger(__name__)
_SEEK_S = 0.5
_YOUNG_S = 30.0

TellEnd = Callable[[Watch, Outcome], Awaitable[None]]


class Belonging:
    """Knows the launches whose command has ended, and whose server is looked for before `tell_end` is called."""

    def __init__(self, runtime: Runtime, followed: Followed, starts: Starts, stops: Stops, tell_end: TellEnd) -> None:
        self._runtime = runtime
        self._followed = followed
        self._starts = starts
        self._stops = stops
        self._tell_end = tell_end
        self._handovers: dict[int, heirs.Handover] = {}
        self._seeking: set[asyncio.Task[None]] = set()

    async def adopt(self, server: Server, details: Details) -> int:
        """Follow a server that somebody else has started, as a launch; its number."""
        position = await asyncio.to_thread(adopt.begin, details)
        row = await self._runtime.store.write_async(
            lambda db: adopt.insert(db, self._runtime, server, details, position)
        )
        number = row.id or 0
        self._followed.begin(number, adopt.launched(server, details), details.engine, details.facts, row)
        return number

    async def understand(self, number: int, server: Server, details: Details) -> None:
        """A script of ours has started this server: where nothing else is known of it, it is followed as that."""
        watch = self._followed.watches.get(number)
        if watch is None:
            return
        if inside.is_script(watch):
            await self._take(watch, server, details)
        elif watch.launched.supervisor is not None and watch.main != server.main.identity:
            watch.main, watch.readiness.hidden = server.main.identity, not details.readable
            if details.container is not None:
                watch.readiness.net_of = server.main.pid
            await self._runtime.store.write_async(lambda db: inside.note(db, number, server, details))

    async def inherit(self, server: Server, details: Details, owner: int | None) -> bool:
        """Whether it belongs to a launch of ours that runs it elsewhere, or has ended and left it alone."""
        for number, one in list(self._handovers.items()):
            if number in self._stops.under_way or not await asyncio.to_thread(heirs.is_heir, one, server, details):
                continue
            if owner in (None, number):
                return await self._hand_over(one, server, details)
            one.heir = owner
        if owner is not None:
            return False
        if self._starts.under_way and (utc_now() - details.started_at).total_seconds() < _YOUNG_S:
            return True  # whose it is can only be told once the row is written
        for number, watch in list(self._followed.watches.items()):
            command = watch.command if watch.main in (None, server.main.identity) else None
            if command is None or number in self._handovers:
                continue
            if heirs.stands_for(command, server, details):
                await self.understand(number, server, details)
                return True
        return False

    def is_sought(self, watch: Watch, outcome: Outcome) -> bool:
        """Whether what was started may have left a server alone, which is then looked for before the end is told."""
        if watch.number in self._handovers:
            return True
        one = heirs.handover(watch, outcome, stopped=watch.stopping)
        if one is None:
            return False
        self._handovers[watch.number] = one
        watch.pause()
        task = asyncio.create_task(self._seek_heir(one))
        self._seeking.add(task)
        task.add_done_callback(self._seeking.discard)
        return True

    async def _seek_heir(self, one: heirs.Handover) -> None:
        number, discovery = one.watch.number, self._runtime.live.get("discovery")
        while discovery is not None and not one.over and one.heir is None and number not in self._stops.under_way:
            await asyncio.sleep(_SEEK_S)
            await discovery.look()
            if self._handovers.get(number) is not one:
                return
        self._handovers.pop(number, None)
        one.tell()
        await self._tell_end(one.watch, one.outcome)

    async def _hand_over(self, one: heirs.Handover, server: Server, details: Details) -> bool:
        if not await self._take(one.watch, server, details, alone=True):
            return False
        self._handovers.pop(one.watch.number, None)
        log.info("L%d is process %d, which what was started has left alone", one.watch.number, server.main.pid)
        return True

    async def _take(self, watch: Watch, server: Server, details: Details, *, alone: bool = False) -> bool:
        """Follow the server instead of what has started it; False where the launch has ended meanwhile."""
        taken = await inside.taken(self._runtime.store, watch, server, details, alone=alone)
        if taken is None:
            return False
        launched, row, phases = taken
        self._followed.begin(watch.number, launched, details.engine, replace(details.facts, port=row.port), row, phases)
        return True
