"""One benchmark job from its warm-up to its last repeat: each run is started, followed, and taken in."""

from __future__ import annotations

import asyncio

from sitrepd.benchmarks.running import rows, starting
from sitrepd.benchmarks.running.asked import BenchAsked
from sitrepd.benchmarks.running.following import Following
from sitrepd.benchmarks.running.job import Job, RunFailed
from sitrepd.benchmarks.running.models import BenchmarkJob
from sitrepd.benchmarks.running.settling import settle
from sitrepd.benchmarks.running.stopping import Stop, Stopped
from sitrepd.benchmarks.running.turns import Turns
from sitrepd.launches.launchers.local import LocalLauncher
from sitrepd.runtime import Runtime

_TURN_EVERY_S = 0.2


class Work:
    """`measures` is true while a process of it runs."""

    def __init__(
        self, runtime: Runtime, launcher: LocalLauncher, turns: Turns, number: int, asked: BenchAsked, *, stopping: bool
    ) -> None:
        self.measures = False
        self._turns = turns
        self._job = Job(runtime, launcher, number, asked, Stop(asked=stopping))

    @property
    def progress(self) -> tuple[int | None, int | None]:
        """(requests done, of how many) of the present run."""
        return self._job.progress.now

    def stop(self) -> None:
        self._job.stop.ask()

    async def stopped(self) -> None:
        """Until somebody asks for its end."""
        await self._job.stop.wait()

    async def do(self) -> None:
        """All that is left to do; raises Stopped, or a SitrepError that says why it cannot be done."""
        row = self._row()
        while row.run <= self._job.asked.repeat:
            await self._turn(row)
            await self._run(row)
            row = self._row()

    async def _turn(self, row: BenchmarkJob) -> None:
        """Until it is the turn of this job: of one that has a process it is. Raises Stopped."""
        while not row.folder and not await asyncio.to_thread(self._turns.has, row):
            await self._job.stop.pause(_TURN_EVERY_S)

    def _row(self) -> BenchmarkJob:
        with self._job.runtime.store.read() as db:
            row = rows.job(db, self._job.number)
        if row is None:
            raise RunFailed("The job is no longer stored.")
        return row

    async def _run(self, row: BenchmarkJob) -> None:
        launched = await starting.adopted(self._job, row) if row.folder else None
        if launched is None:
            if self._job.stop.asked:
                raise Stopped
            launched = await starting.start(self._job, row, self._turns)
            row = self._row()
        following = Following(self._job, row, launched)
        self.measures = True
        try:
            ended = await following.until_ended()
        finally:
            self.measures = False
        await settle(self._job, row, ended, following.others)
        self._job.progress.begin()
