"""Launches: started, followed until they end, stopped, and taken up again by the next daemon."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from sitrepd.launches import retention, store
from sitrepd.launches.discovery.belonging import Belonging
from sitrepd.launches.discovery.details import Details
from sitrepd.launches.discovery.find import Server
from sitrepd.launches.examinations import Examinations
from sitrepd.launches.followed import Followed
from sitrepd.launches.models import LaunchCreate
from sitrepd.launches.processes import Stat
from sitrepd.launches.starts import Starts
from sitrepd.launches.stops import Stops
from sitrepd.launches.taken_up import TakingUp
from sitrepd.launches.watch import Outcome, Watch, step_all
from sitrepd.runtime import Runtime
from sitrepd.services import Service

log = logging.getLogger(__name__)


class Launches(Service):
    """Owns all watched launches of this host; `runtime.live["launches"]` says what they do at the moment."""

    name = "launches"

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._followed = Followed(runtime)
        self._starts = Starts(runtime, self._followed)
        self._stops = Stops(runtime.store, self._followed.watches)
        tell_end = partial(self._settle, final=True)
        self._belonging = Belonging(runtime, self._followed, self._starts, self._stops, tell_end)
        self._examinations = Examinations(runtime)
        self.live = self._followed.live
        self.restored = asyncio.Event()
        runtime.live["launches"] = self.live
        runtime.live["launch_service"] = self

    async def run(self) -> None:
        """Take up what earlier daemons started, then look at every launch again and again."""
        if not self.restored.is_set():
            await TakingUp(self.runtime, self._followed, self._starts, self._stops).all()
            self.restored.set()
        retention.schedule(self.runtime)
        pause = self.runtime.settings.log_poll_s
        async with self._completing():
            while True:
                behind = await self._look_at_all()
                await asyncio.sleep(0 if behind else pause)

    @asynccontextmanager
    async def _completing(self) -> AsyncIterator[None]:
        """Meanwhile, what an earlier daemon has begun is carried out; nothing else waits for it."""
        from sitrepd.launches.repeat.restart import complete

        jobs = (complete(self.runtime), self._examinations.of_what_is_left_over())
        tasks = [asyncio.create_task(_logged(job), name="sitrep-left-over") for job in jobs]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # --- what callers ask ----------------------------------------------------------------------------------------

    async def start(self, body: LaunchCreate, session_id: int | None, provenance: str, given: int | None = None) -> int:
        """Start a server and watch it; its number, which may be given. Nothing is left behind when it could not be
        started."""
        return await self._starts.start(body, session_id, provenance, given)

    async def stop(self, number: int, grace_s: float | None) -> None:
        """Ask the server to end: SIGTERM to its main process, then SIGKILL to all that is left after `grace_s`."""
        # A daemon that has just started may not yet know what the one before it watched.
        await self.restored.wait()
        await self._stops.ask(number, grace_s)

    async def wait_ended(self, number: int, timeout_s: float) -> bool:
        """Whether the launch has ended, processes and all, within the time."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        while number in self._followed.watches or number in self._stops.under_way:
            if asyncio.get_running_loop().time() > deadline:
                return False
            await asyncio.sleep(0.05)
        return True

    # --- what discovery asks and tells ---------------------------------------------------------------------------

    async def adopt(self, server: Server, details: Details) -> int:
        """Follow a server that somebody else has started, as a launch; its number."""
        return await self._belonging.adopt(server, details)

    async def understand(self, number: int, server: Server, details: Details) -> None:
        """A script of ours has started this server: where nothing else is known of it, it is followed as that."""
        await self._belonging.understand(number, server, details)

    async def inherit(self, server: Server, details: Details, owner: int | None) -> bool:
        """Whether it belongs to a launch of ours that runs it elsewhere, or has ended and left it alone."""
        return await self._belonging.inherit(server, details, owner)

    def followed(self) -> list[Watch]:
        """All launches that live."""
        return list(self._followed.watches.values())

    def owners(self, stats: Mapping[int, Stat]) -> dict[int, int]:
        """The launch that each process of a followed launch belongs to, by pid; supervisors too."""
        return self._followed.owners(stats) | self._stops.owners(stats)

    def is_starting(self, number: int) -> bool:
        """Whether its process may run already, and its row not be written yet."""
        return number in self._starts.under_way

    # --- looking -------------------------------------------------------------------------------------------------

    async def _look_at_all(self) -> bool:
        stopping = self._stops.under_way
        due = [watch for number, watch in self._followed.watches.items() if watch.is_due() or number in stopping]
        quiet = [watch for watch in due if watch.is_quiet()]
        looked = await asyncio.to_thread(step_all, quiet) if quiet else {}
        steps = [(watch, looked[watch.number]) for watch in quiet if watch.number in looked]
        await asyncio.gather(*(self._settle(watch, outcome) for watch, outcome in steps))
        behind = any(not outcome.caught_up for _, outcome in steps)
        for watch in due:
            if watch in quiet:
                continue
            found = await asyncio.to_thread(step_all, [watch])
            for outcome in found.values():
                behind = behind or not outcome.caught_up
                await self._settle(watch, outcome)
        await self._stops.step()
        return behind

    async def _settle(self, watch: Watch, outcome: Outcome, *, final: bool = False) -> None:
        number = watch.number
        if watch.replaced or (not final and self._belonging.is_sought(watch, outcome)):
            return
        if outcome.worth_storing or outcome.became_ready or outcome.port_taken or outcome.exit:
            stopped = number in self._stops.under_way
            await self.runtime.store.write_async(lambda db: store.settle(db, number, watch, outcome, stopped=stopped))
        if outcome.exit is not None or outcome.port_taken:
            self._examinations.begin(number, outcome.exit, watch.facts)
        if outcome.exit is not None:
            self._followed.end(number)
            return
        self._followed.note(watch, outcome)


async def _logged(job: Coroutine[Any, Any, None]) -> None:
    try:
        await job
    except Exception:
        log.exception("what an earlier daemon has begun was not carried out")
