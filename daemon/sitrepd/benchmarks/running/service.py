"""Runs benchmarks one after another for each launch, goes on with those of an earlier daemon, and stops them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from sqlmodel import Session, col, select

from sitrepd.benchmarks.running.models import LIVING, BenchmarkJob, JobOut, job_out
from sitrepd.errors import SitrepError, UnknownId
from sitrepd.launches.launchers.local import LocalLauncher
from sitrepd.runtime import Runtime
from sitrepd.services import Service

if TYPE_CHECKING:
    from sitrepd.benchmarks.running.asked import BenchAsked
    from sitrepd.benchmarks.running.turns import Turns
    from sitrepd.benchmarks.running.work import Work

log = logging.getLogger(__name__)


class BenchmarkJobs(Service):
    """`runtime.live["benchmark_jobs"]`; what it does with a process is done by `Work`.

    What a job needs is imported with the first one.
    """

    name = "benchmark jobs"

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.launcher = LocalLauncher()
        self.restored = asyncio.Event()
        self._works: dict[int, Work] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._locks: dict[int, asyncio.Lock] = {}
        self._turns: Turns | None = None
        runtime.live["benchmark_jobs"] = self

    @property
    def busy(self) -> bool:
        """Whether something is being measured now: then no server is asked for what would make it generate."""
        return any(work.measures for work in self._works.values())

    async def run(self) -> None:
        """Go on with what an earlier daemon had begun; each job has a task of its own."""
        if not self.restored.is_set():
            for row in await asyncio.to_thread(self._unfinished):
                from sitrepd.benchmarks.running.rows import asked_of

                if row.id not in self._tasks:
                    self._begin(row, asked_of(row))
            self.restored.set()
        try:
            await asyncio.Event().wait()
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _unfinished(self) -> list[BenchmarkJob]:
        """Those that have begun first, with all they take turns with, since they have their launches."""
        with self.runtime.store.read() as db:
            found = db.exec(select(BenchmarkJob).where(col(BenchmarkJob.state).in_(LIVING))).all()
        begun = {number for row in found if row.state != "queued" for number in row.turns or [row.id or 0]}
        return sorted(found, key=lambda row: (row.id not in begun, row.id))

    async def start(self, asked: BenchAsked, session_id: int | None, provenance: str) -> int:
        """Check what is asked for, write it down, and begin; raises SitrepError before anything has run.

        The number of its job; of several that are measured in turns the first.
        """
        from sitrepd.benchmarks.running import prepare, rows

        each = asked.each()
        launches = await prepare.all_checked(self.runtime, each)
        made = await self.runtime.store.write_async(lambda db: rows.insert(db, each, launches, session_id, provenance))
        for row, one in zip(made, each, strict=True):
            self._begin(row, one)
        return made[0].id or 0

    def _begin(self, row: BenchmarkJob, asked: BenchAsked) -> None:
        from sitrepd.benchmarks.running.turns import Turns
        from sitrepd.benchmarks.running.work import Work

        number = row.id or 0
        self._turns = turns = self._turns or Turns(self.runtime)
        self._works[number] = Work(self.runtime, self.launcher, turns, number, asked, stopping=row.stop_asked)
        lock = self._locks.setdefault(row.launch_id, asyncio.Lock())
        task = asyncio.create_task(self._do(number, lock, turns), name=f"sitrep-benchmark-{number}")
        self._tasks[number] = task
        task.add_done_callback(lambda _: self._forget(number))

    def _forget(self, number: int) -> None:
        self._tasks.pop(number, None)
        self._works.pop(number, None)
        if self._turns is not None:
            self._turns.here.discard(number)

    async def _do(self, number: int, lock: asyncio.Lock, turns: Turns) -> None:
        from sitrepd.benchmarks.running.stopping import Stopped

        work = self._works[number]
        try:
            async with _alone(lock, work):
                turns.here.add(number)
                await work.do()
        except Stopped:
            await self._end(number, "stopped", None)
        except SitrepError as error:
            await self._end(number, error.extra.get("state", "failed"), error.detail)
        except Exception as error:
            log.exception("benchmark job %d", number)
            await self._end(number, "failed", f"Sitrep itself failed: {type(error).__name__}: {error}")
        else:
            await self._end(number, "done", None)

    async def _end(self, number: int, state: str, error: str | None) -> None:
        from sitrepd.benchmarks.running.rows import end

        await self.runtime.store.write_async(lambda db: end(db, number, state, error))

    async def stop(self, number: int) -> JobOut:
        """End it and its process; what it has measured so far stays."""
        from sitrepd.benchmarks.running.rows import ask_stop

        await self.restored.wait()
        work, task = self._works.get(number), self._tasks.get(number)
        if work is not None and task is not None:
            # First what is meant, then the signal: a daemon that dies in between goes on with it when it is back.
            await self.runtime.store.write_async(lambda db: ask_stop(db, number))
            work.stop()
            await _finished(task)
        return self.out(number)

    async def ended(self, number: int) -> JobOut:
        """Wait for its end, however many daemons that takes."""
        await self.restored.wait()
        task = self._tasks.get(number)
        if task is not None:
            await _finished(task)
        return self.out(number)

    def out(self, number: int) -> JobOut:
        """How far it is at this moment."""
        from sitrepd.benchmarks.running.rows import job

        with self.runtime.store.read() as db:
            row = job(db, number)
        if row is None:
            raise UnknownId(f"There is no benchmark job {number}; `sitrep bench jobs` lists them.")
        return self.now(row)

    def now(self, row: BenchmarkJob) -> JobOut:
        """A row with the requests that are done by now."""
        told, work = job_out(row), self._works.get(row.id or 0)
        if work is not None and told.is_living:
            told.done, told.total = work.progress
        return told


@asynccontextmanager
async def _alone(lock: asyncio.Lock, work: Work) -> AsyncIterator[None]:
    """With the launch to itself; raises Stopped for one that is stopped while another has it: it has no process yet."""
    from sitrepd.benchmarks.running.stopping import Stopped

    mine, asked = asyncio.ensure_future(lock.acquire()), asyncio.ensure_future(work.stopped())
    try:
        await asyncio.wait({mine, asked}, return_when=asyncio.FIRST_COMPLETED)
        if not mine.done():
            raise Stopped
        yield
    finally:
        for one in (mine, asked):
            one.cancel()
        got, _ = await asyncio.gather(mine, asked, return_exceptions=True)
        if got is True:
            lock.release()


async def _finished(task: asyncio.Task[None]) -> None:
    """Wait for the end of a task of its own, which goes on where the one who waits is cancelled."""
    await asyncio.wait([task])


def _service(runtime: Runtime) -> BenchmarkJobs:
    found: BenchmarkJobs = runtime.live["benchmark_jobs"]
    return found


async def start(
    runtime: Runtime, asked: BenchAsked, session_id: int | None = None, provenance: str = "observed"
) -> int:
    """The number of the job; raises SitrepError where it cannot be run, before anything has."""
    return await _service(runtime).start(asked, session_id, provenance)


def ended(runtime: Runtime, number: int) -> Coroutine[Any, Any, JobOut]:
    """Its end; may be asked for again by a later daemon."""
    return _service(runtime).ended(number)


def stop(runtime: Runtime, number: int) -> Coroutine[Any, Any, JobOut]:
    return _service(runtime).stop(number)


def job_of_trial(db: Session, trial: int) -> BenchmarkJob | None:
    """The newest job of a trial: how one whose daemon died between the start and its own commit finds it again."""
    query = select(BenchmarkJob).where(BenchmarkJob.trial == trial).order_by(col(BenchmarkJob.id).desc()).limit(1)
    return db.exec(query).first()
