"""When checkpoints are made without being asked for: the session idles while something loads, or something happened."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlmodel import Session, col, select

from sitrepd.checkpoints import echoes
from sitrepd.checkpoints.models import Checkpoint
from sitrepd.checkpoints.service import checkpoints
from sitrepd.checkpoints.triggers import BURSTS, Happened, Trigger, happened, triggers
from sitrepd.clock import utc_now
from sitrepd.errors import SitrepError
from sitrepd.launches.states import LOADING
from sitrepd.runtime import Runtime
from sitrepd.services import Service
from sitrepd.sessions.models import SessionRow
from sitrepd.storage import events, ids
from sitrepd.storage.base import Event

log = logging.getLogger(__name__)
_SETTLE_S = 0.2
# What is told in bursts is written down after so many times the quiet that it waits for, if there is none.
_PATIENCE = 5
_LOOK_S = 600.0
_BATCH = 500


class Watch(Service):
    """Looks every `idle_check_s` whether a session idles, reads the event log as it grows, and minds the clock."""

    name = "checkpoints"

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._idle_told: dict[int | None, tuple[float, frozenset[int]]] = {}
        self._bursts: dict[int, _Burst] = {}
        with runtime.store.read() as db:
            self._cursor = _written_down_until(db)

    async def run(self) -> None:
        store, scheduler = self._runtime.store, self._runtime.scheduler
        assert scheduler is not None
        seconds = self._runtime.settings.idle_check_s
        jobs = [scheduler.add_job(self.check_idle, "interval", seconds=seconds, id="idle", replace_existing=True)]
        every_s = self._runtime.settings.checkpoint_every_h * 3600
        if every_s:
            look_s = min(every_s, _LOOK_S)
            jobs.append(
                scheduler.add_job(
                    self.check_age, "interval", seconds=look_s, id="checkpoint age", replace_existing=True
                )
            )
        try:
            await self.read_events()
            async with aclosing(store.bell.listen()) as bell:
                async for _ in bell:
                    await asyncio.sleep(_SETTLE_S)  # what happens together is told together
                    await self.read_events()
        finally:
            for burst in self._bursts.values():
                burst.task.cancel()
            for job in jobs:
                if scheduler.get_job(job.id) is not None:
                    job.remove()

    # --- idle ----------------------------------------------------------------------------------------------------

    async def check_idle(self) -> None:
        """One checkpoint for each time that a session falls idle while the same launches load."""
        live: Mapping[int, Any] = self._runtime.live.get("launches") or {}
        loading = [number for number, launch in live.items() if launch.state in LOADING]
        if not loading:
            self._idle_told.clear()
            return
        for session_id, numbers in (await asyncio.to_thread(self._by_session, loading)).items():
            await self._if_idle(session_id, numbers, live)

    def _by_session(self, loading: Sequence[int]) -> dict[int, frozenset[int]]:
        table: Any = self._runtime.registry.by_word["launch"].table
        query = select(table.id, table.session_id).where(col(table.id).in_(loading), col(table.session_id).is_not(None))
        found: dict[int, frozenset[int]] = {}
        with self._runtime.store.read() as db:
            for number, session_id in db.exec(query).all():
                found[session_id] = found.get(session_id, frozenset()) | {number}
        return found

    async def _if_idle(self, session_id: int, numbers: frozenset[int], live: Mapping[int, Any]) -> None:
        activity = self._runtime.activity
        moment = (activity.last(session_id), numbers)
        idle = activity.idle_s(session_id) >= self._runtime.settings.idle_after_s
        if not idle or self._idle_told.get(session_id) == moment:
            return
        self._idle_told[session_id] = moment
        states = (f"{ids.public_id('L', number)} {live[number].state}" for number in sorted(numbers) if number in live)
        await self._make(session_id, Trigger("idle", tuple(states)))

    # --- what happened -------------------------------------------------------------------------------------------

    async def read_events(self) -> None:
        """Make a checkpoint of each session in which something happened that is worth one."""
        while True:
            found = await asyncio.to_thread(self._new_events)
            for session_id, trigger in triggers(found).items():
                await self._on(session_id, trigger)
            for one in found:
                await self._follow(one)
            if len(found) < _BATCH:
                return

    def _new_events(self) -> list[Happened]:
        with self._runtime.store.read() as db:
            found = events.events_after(db, self._cursor, limit=_BATCH)
            told = happened(db, self._runtime.registry, found)
            naming = echoes.naming(db, self._runtime.registry, found)
            told += [Happened("checkpoint.named", "", number, {}, text) for number, text in naming]
        if found:
            self._cursor = found[-1].id or self._cursor
        return told

    async def _follow(self, one: Happened) -> None:
        if one.session_id is None:
            return
        if one.kind == "folder.tied":
            row = await checkpoints(self._runtime).latest(one.session_id)
            await checkpoints(self._runtime).write_files(one.session_id, row)
        elif one.text:
            await echoes.echo(self._runtime, one.session_id, one.text)

    # --- bursts --------------------------------------------------------------------------------------------------

    async def _on(self, session_id: int, trigger: Trigger) -> None:
        """At once, with what was waiting; but what is told in bursts waits until it has been quiet for a while."""
        burst = self._bursts.get(session_id)
        if trigger.name not in BURSTS:
            waiting = self._bursts.pop(session_id, None)
            if waiting is not None:
                waiting.task.cancel()
                trigger = waiting.trigger | trigger
            await self._make(session_id, trigger)
        elif burst is not None:
            burst.trigger, burst.last = burst.trigger | trigger, time.monotonic()
        else:
            now = time.monotonic()
            task = asyncio.create_task(self._when_quiet(session_id))
            self._bursts[session_id] = _Burst(trigger, now, now, task)

    async def _when_quiet(self, session_id: int) -> None:
        quiet_s = self._runtime.settings.checkpoint_quiet_s
        left = quiet_s
        while left > 0:
            await asyncio.sleep(left)
            burst = self._bursts[session_id]
            left = min(burst.last + quiet_s, burst.first + _PATIENCE * quiet_s) - time.monotonic()
        await self._make(session_id, self._bursts.pop(session_id).trigger)

    # --- age -----------------------------------------------------------------------------------------------------

    async def check_age(self) -> None:
        """A checkpoint of each open session whose latest one is older than it should be."""
        hours = self._runtime.settings.checkpoint_every_h
        for session_id in await asyncio.to_thread(self._aged, utc_now() - timedelta(hours=hours)):
            await self._make(session_id, Trigger("periodic", (f"every {hours:g} h",)))

    def _aged(self, before: datetime) -> list[int]:
        latest = select(Checkpoint.id).where(
            Checkpoint.session_id == SessionRow.id,
            col(Checkpoint.imported_from).is_(None),
            col(Checkpoint.at) >= before,
        )
        aged = select(SessionRow.id).where(col(SessionRow.ended_at).is_(None), SessionRow.at < before, ~latest.exists())
        with self._runtime.store.read() as db:
            return [number for number in db.exec(aged).all() if number is not None]

    async def _make(self, session_id: int, trigger: Trigger) -> None:
        try:
            await checkpoints(self._runtime).make(session_id, trigger.name, trigger.cause)
        except Exception as error:
            why = error.detail if isinstance(error, SitrepError) else repr(error)
            log.warning("no checkpoint of S%d could be made (%s): %s", session_id, trigger.name, why)


@dataclass
class _Burst:
    """What was told in a row: when the first and the last of it were."""

    trigger: Trigger
    first: float
    last: float
    task: asyncio.Task[None]


def _written_down_until(db: Session) -> int:
    """The event of the latest checkpoint: what came after it may have been missed when the daemon died."""
    latest = (
        select(Event.id)
        .where(col(Event.kind).in_(("checkpoint.created", "checkpoint.kept")))
        .order_by(col(Event.id).desc())
        .limit(1)
    )
    return db.exec(latest).first() or events.last_event_id(db)
