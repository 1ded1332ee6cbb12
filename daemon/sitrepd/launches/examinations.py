"""Why launches have failed: each is looked into once, by this daemon or by the next."""

from __future__ import annotations

import asyncio
from collections import Counter

from sitrepd.launches import autopsy
from sitrepd.launches.engines import base as e
from sitrepd.launches.estimate import usual_spans
from sitrepd.launches.launchers.base import Exit
from sitrepd.launches.models import Launch
from sitrepd.launches.taken_up import engine_of
from sitrepd.runtime import Runtime


class Examinations:
    """The autopsies that are under way."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._under_way: dict[int, asyncio.Task[None]] = {}

    def begin(self, number: int, ended: Exit | None, facts: e.CommandFacts | None) -> None:
        """In the background, for a long log takes seconds."""
        if number not in self._under_way:
            task = asyncio.create_task(self._examine(number, ended, facts))
            self._under_way[number] = task
            task.add_done_callback(lambda _: self._under_way.pop(number, None))

    async def of_what_is_left_over(self) -> None:
        """A daemon may have died between the end of a launch and the finding that says why."""
        with self._runtime.store.read() as db:
            rows = [db.get(Launch, number) for number in autopsy.left_over(db)]
        for row in rows:
            if row is not None and row.id is not None:
                await self._examine(row.id, autopsy.exit_of(row), engine_of(row)[1])

    async def _examine(self, number: int, ended: Exit | None, facts: e.CommandFacts | None) -> None:
        with self._runtime.store.read() as db:
            row = db.get(Launch, number)
            if row is None or not autopsy.is_due(row):
                return
            usual = usual_spans(db, number)
        beside = autopsy.Beside(ended, facts, self._others_on_gpus(number), usual)
        told = await asyncio.to_thread(autopsy.examine, row, beside)
        await self._runtime.store.write_async(lambda db: autopsy.record(db, self._runtime.registry, number, told))

    def _others_on_gpus(self, number: int) -> dict[int, int]:
        """Bytes of GPU memory by pid, of processes that are not of this launch."""
        seen = getattr(self._runtime.live.get("hardware"), "processes", ())
        held: Counter[int] = Counter()
        for one in seen:
            if one.launch_id != number:
                held[one.process.pid] += one.process.used_bytes or 0
        return {pid: size for pid, size in held.items() if size}
