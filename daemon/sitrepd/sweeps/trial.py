"""One trial from its check to the moment when its GPUs are free again. All that it has done stands in rows, so that the
next daemon goes on where this one was killed, and starts nothing twice."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from datetime import datetime
from typing import Any

from sqlmodel import Session, col, select

from sitrepd.benchmarks.models import Benchmark
from sitrepd.benchmarks.running import service as benchmarks
from sitrepd.benchmarks.running.asked import BenchAsked
from sitrepd.benchmarks.running.models import BenchmarkJob, JobOut
from sitrepd.clock import utc_now
from sitrepd.errors import Conflict, SitrepError
from sitrepd.launches.check.run import before_a_launch
from sitrepd.launches.models import Launch, LaunchCreate
from sitrepd.launches.processes import boot_id
from sitrepd.launches.repeat import around
from sitrepd.launches.service import Launches
from sitrepd.launches.states import ENDED
from sitrepd.launches.wait import wait
from sitrepd.redact import is_secret_name
from sitrepd.runtime import Runtime
from sitrepd.storage import ids
from sitrepd.sweeps import free, results, store, template
from sitrepd.sweeps.asked import BenchIn
from sitrepd.sweeps.grid import key_of
from sitrepd.sweeps.models import Sweep, Trial
from sitrepd.sweeps.plan import starts_of

TELLER = "observed:sweep"
_STOP_WITHIN_S = 300.0
_START_S = 2 * 3600.0
_LEAST_START_S = 900.0
_SUSPECT_S = 600.0
_PIECE_S = 30.0
_ATTEMPTS = 3
_LOOKS, _LOOK_AGAIN_S = 4, 3.0


class Failed(Exception):
    """The trial has failed; the sweep goes on with the next."""


class Again(Exception):
    """The machine was restarted under it: it is to be done anew."""


class Paused(Exception):
    """Nothing can go on until somebody has looked."""


class Carried:
    """Carries a trial out; `known` are the secrets of the one who asked, as long as the daemon lives."""

    def __init__(self, runtime: Runtime, sweep: Sweep, trial: int, known: dict[str, str]) -> None:
        self.runtime = runtime
        self._sweep = sweep
        self._number = trial
        self._known = known
        self._asked = store.asked_of(sweep)
        self._first = results.first_of(self._asked)
        self._launches: Launches = runtime.live["launch_service"]

    async def do(self) -> None:
        """All that is left to do."""
        row = self._row()
        if row.outcome is not None:
            await self._over(row.outcome, row.why)
            return
        try:
            await self._launched()
            await self._ready()
            why = await self._measured()
        except Failed as failure:
            await self._over("failed", str(failure))
        except Again as again:
            await self._repeat(str(again))
        else:
            await self._over("skipped" if why else "done", why)

    async def _over(self, state: str, why: str | None) -> None:
        """Its server stopped and what it held free, then its end; what was found out stays whatever becomes of that."""
        await self._write(lambda db: store.set_trial(db, self._number, outcome=state, why=why))
        try:
            await self._released()
        finally:
            if not _is_cancelled():
                await self._end(state, why)

    async def give_up(self, why: str) -> None:
        """Stop what it does, and put it back among the planned ones; its benchmarks stay stored."""
        row = self._row()
        job = self._job(row)
        if job is not None:
            await benchmarks.stop(self.runtime, job.id or 0)
        await self._released()
        await self._write(lambda db: store.again(db, self._number, why))

    # --- starting ------------------------------------------------------------------------------------------------

    async def _launched(self) -> None:
        row = self._row()
        if row.launch_number is None:
            body = self._body(row)
            await self._step("waiting")
            await free.wait_for_others(self.runtime, body, self._sweep.session_id, self._waits)
            await self._checked(body)
            row = await self._write(self._begin)
        if row.launch_id is not None:
            return
        number = row.launch_number or 0
        if self._launch(number) is None:
            if row.boot != boot_id():
                raise Again("the machine was restarted before its server was started")
            await self._start(self._body(row), number)
        await self._write(lambda db: store.set_trial(db, self._number, launch_id=number, step="loading"))

    def _body(self, row: Trial) -> LaunchCreate:
        sweep = ids.public_id("W", self._sweep.id or 0)
        mark = f"{sweep}-{row.place}" + (f".{row.attempt}" if (row.attempt or 0) > 1 else "")
        try:
            base = template.filled((self._sweep.plan or {})["template"], self._known)
            return template.trial_body(base, row.settings or {}, mark, f"{sweep} {row.name}"[:500])
        except template.MissingSecret as missing:
            raise Paused(missing.detail) from missing
        except SitrepError as error:
            raise Failed(f"not started: {error.detail}") from error

    async def _checked(self, body: LaunchCreate) -> None:
        """What speaks against it for certain, in the little time that any launch is given for this.

        What is known of the GPUs may be from before the last trial's server has gone, so an error is looked at again.
        """
        for again in range(_LOOKS):
            against = await before_a_launch(self.runtime, body, self._sweep.session_id, "sweep")
            wrong = [one for one in against if one.level == "error"]
            if not wrong or self._asked.force:
                return
            if again + 1 < _LOOKS:
                await asyncio.sleep(_LOOK_AGAIN_S)
        raise Failed(f"not started: {wrong[0].text}")

    def _begin(self, db: Session) -> Trial:
        """The number of its launch is given out before there is a process."""
        row = db.get(Trial, self._number)
        assert row is not None
        return store.set_trial(
            db, self._number, launch_number=ids.allocate(db, "launch"), boot=boot_id(), step="launching",
            attempt=(row.attempt or 0) + 1, why=None,
        )  # fmt: skip

    async def _start(self, body: LaunchCreate, number: int) -> None:
        try:
            await self._launches.start(body, self._sweep.session_id, TELLER, number)
        except Conflict as error:
            raise Paused(f"its server could not be started: {error.detail}") from error
        except SitrepError as error:
            raise Failed(f"not started: {error.detail}") from error

    # --- loading -------------------------------------------------------------------------------------------------

    async def _ready(self) -> None:
        row = self._row()
        number, began = row.launch_id or 0, row.started_at or utc_now()
        limit = self._asked.ready_within_s or self._usual_limit(number)
        suspect_since: datetime | None = None
        while True:
            found = (await wait(self.runtime, number, ["ready"], _PIECE_S)).row
            if found.state == "ready" and found.ended_at is None:
                return
            if found.ended_at is not None or found.state in ENDED:
                self._died(row, found)
            began = found.started_at or began
            suspect_since = (suspect_since or utc_now()) if found.suspect else None
            if (utc_now() - began).total_seconds() > limit:
                raise Failed(f"it was not ready within {limit:.0f} s, and was stopped in {found.state}")
            if suspect_since and (utc_now() - suspect_since).total_seconds() > _SUSPECT_S:
                raise Failed(f"it was stuck for {_SUSPECT_S:.0f} s, and was stopped: {found.suspect}")

    def _died(self, row: Trial, launch: Launch) -> None:
        if row.boot != boot_id():
            raise Again("the machine was restarted while it ran")
        raise Failed(launch.failure or _ended(launch))

    def _usual_limit(self, number: int) -> float:
        """Three times the longest of the last starts of the same model here, a quarter of an hour at the least."""
        with self.runtime.store.read() as db:
            launch = db.get(Launch, number)
            seen = starts_of(db, launch.engine, launch.model, launch.host_id) if launch else []
        return max(_LEAST_START_S, 3 * max(seen)) if seen else _START_S

    # --- measuring -----------------------------------------------------------------------------------------------

    async def _measured(self) -> str | None:
        """Why it was not measured to its end, None where it was."""
        await self._step("measuring")
        for at, bench in enumerate(self._asked.benchmarks):
            row = self._row()
            job = self._jobs(row)[at : at + 1]
            number = (job[0].id or 0) if job else await self._begin_job(row, bench)
            told, why = await self._followed(number, may_stop=at == 0)
            await self._keep(told)
            if why is not None:
                return why
            self._judge(row, told)
        return None

    async def _begin_job(self, row: Trial, bench: BenchIn) -> int:
        name = f"{row.name}: {bench.name}" if bench.name and self._first else row.name
        config = {key_of(key): value for key, value in (row.settings or {}).items() if value is not None}
        flags, env = self._with_secrets(bench)
        asked = BenchAsked(
            launch=ids.public_id("L", row.launch_id or 0), tool=bench.tool, preset=bench.preset, flags=flags,
            repeat=bench.repeat, warmup=bench.warmup, name=(name or "trial")[:500], config=config,
            workload=bench.workload, mapping=bench.mapping, baseline=bool(row.baseline) and self._lacks_baseline(),
            trial=self._number, timeout_s=bench.timeout_s, program=bench.program, cwd=bench.cwd, env=env,
            session=None, wait_s=0,
        )  # fmt: skip
        try:
            return await benchmarks.start(self.runtime, asked, self._sweep.session_id, TELLER)
        except SitrepError as error:
            launch = self._launch(row.launch_id or 0)
            if launch is not None and (launch.ended_at is not None or launch.state in ENDED):
                self._died(row, launch)
            raise Failed(f"the benchmark could not be run: {error.detail}") from error

    def _with_secrets(self, bench: BenchIn) -> tuple[list[str], dict[str, str] | None]:
        """(flags, environment); what is not known stays a reference, which the benchmark then names."""
        names = {name for word in bench.flags for name in around.references(word) if is_secret_name(name)}
        env, _ = around.resolved(bench.env or {}, self._known)
        return around.filled(bench.flags, names, self._known), {**(bench.env or {}), **env} or None

    def _lacks_baseline(self) -> bool:
        """A session that has its own baseline keeps it: the sweep is compared with its own trial all the same."""
        with self.runtime.store.read() as db:
            query = select(Benchmark.id).where(
                col(Benchmark.session_id) == self._sweep.session_id, col(Benchmark.baseline).is_(True)
            )
            return db.exec(query.limit(1)).first() is None

    async def _followed(self, number: int, *, may_stop: bool) -> tuple[JobOut, str | None]:
        """Until the job has ended, or its repeats so far show that the trial cannot win."""
        ended = asyncio.ensure_future(benchmarks.ended(self.runtime, number))
        looked = 0
        try:
            async with aclosing(self.runtime.store.bell.listen(_PIECE_S)) as bell:
                while not ended.done():
                    ring = asyncio.ensure_future(anext(bell, None))
                    await asyncio.wait({ended, ring}, return_when=asyncio.FIRST_COMPLETED)
                    if not ring.done():
                        ring.cancel()
                        await asyncio.gather(ring, return_exceptions=True)
                    told = self._job_out(number)
                    if may_stop and told.is_living and len(told.benchmarks) > looked:
                        looked = len(told.benchmarks)
                        why = await self._hopeless(told)
                        if why is not None:
                            return await benchmarks.stop(self.runtime, number), why
            return await ended, None
        finally:
            ended.cancel()
            await asyncio.gather(ended, return_exceptions=True)

    def _job_out(self, number: int) -> JobOut:
        out: JobOut = self.runtime.live["benchmark_jobs"].out(number)
        return out

    async def _hopeless(self, told: JobOut) -> str | None:
        rule = self._asked.stopping
        await self._keep(told)
        row = self._row()
        if rule is None or row.baseline:
            return None
        return await asyncio.to_thread(self._cannot_win, rule)

    def _cannot_win(self, rule: Any) -> str | None:
        metric = (self._sweep.plan or {})["metric"]
        with self.runtime.store.read() as db:
            trials = store.trials(db, self._sweep.id or 0)
            measured = results.values_of(db, trials, metric, self._first)
        own = next((one for one in measured if one.trial == self._number), None)
        return results.cannot_win(own, measured, rule, results.higher_is_better(metric)) if own else None

    async def _keep(self, told: JobOut) -> None:
        """The benchmarks that the job has measured so far, as those of the trial."""

        def job(db: Session) -> None:
            row = db.get(Trial, self._number)
            assert row is not None
            known = [*row.benchmarks, *(one for one in told.benchmarks if one not in row.benchmarks)]
            store.set_trial(db, self._number, benchmarks=known)

        if told.benchmarks:
            await self._write(job)

    def _judge(self, row: Trial, told: JobOut) -> None:
        if told.state == "done":
            return
        launch = self._launch(row.launch_id or 0)
        if launch is not None and (launch.ended_at is not None or launch.state in ENDED):
            if row.boot != boot_id():
                raise Again("the machine was restarted while it was measured")
            raise Failed(f"its server ended while it was measured: {launch.failure or _ended(launch)}")
        if row.boot != boot_id():
            raise Again("the machine was restarted while it was measured")
        raise Failed(f"the benchmark {told.state}: {told.error or 'why was not told'}")

    # --- the end -------------------------------------------------------------------------------------------------

    async def _released(self) -> None:
        """Stop its server, and see that what it held is free."""
        row = self._row()
        number = row.launch_number or 0
        launch = self._launch(number) if row.launch_number is not None else None
        if launch is None:
            return
        await self._step("stopping")
        if launch.watched and launch.ended_at is None:
            with suppress(Conflict):  # it may just have ended by itself
                await self._launches.stop(number, None)
            if not await self._launches.wait_ended(number, _STOP_WITHIN_S):
                raise Paused(f"L{number} has not ended within {_STOP_WITHIN_S:.0f} s of being stopped")
        if row.boot == boot_id() and (why := await free.released(self.runtime, number, launch.port, None)):
            raise Paused(f"L{number} has ended, but {why}")

    async def _repeat(self, why: str) -> None:
        if (self._row().attempt or 0) >= _ATTEMPTS:
            await self._end("failed", f"{why}, {_ATTEMPTS} times in a row")
            return
        await self._write(lambda db: store.again(db, self._number, why))

    async def _end(self, state: str, why: str | None) -> None:
        def job(db: Session) -> None:
            store.end_trial(db, self._number, state, why)
            sweep = db.get(Sweep, self._sweep.id)
            assert sweep is not None
            metric = (sweep.plan or {})["metric"]
            sweep.result = results.compared(db, store.trials(db, sweep.id or 0), metric, self._first)
            db.add(sweep)

        await self._write(job)

    # --- rows ----------------------------------------------------------------------------------------------------

    def _row(self) -> Trial:
        with self.runtime.store.read() as db:
            row = db.get(Trial, self._number)
        assert row is not None
        return row

    def _launch(self, number: int) -> Launch | None:
        with self.runtime.store.read() as db:
            return db.get(Launch, number)

    def _jobs(self, row: Trial) -> list[BenchmarkJob]:
        """Those of its present launch, one for each benchmark, in order."""
        with self.runtime.store.read() as db:
            query = select(BenchmarkJob).where(
                col(BenchmarkJob.trial) == self._number, col(BenchmarkJob.launch_id) == row.launch_id
            )
            return list(db.exec(query.order_by(col(BenchmarkJob.id))).all())

    def _job(self, row: Trial) -> BenchmarkJob | None:
        found = self._jobs(row)
        return found[-1] if found else None

    async def _step(self, name: str) -> None:
        await self._write(lambda db: store.set_trial(db, self._number, step=name))

    async def _waits(self, why: str | None) -> None:
        await self._write(lambda db: store.set_trial(db, self._number, why=why))

    async def _write(self, job: Any) -> Any:
        return await self.runtime.store.write_async(job)


def _is_cancelled() -> bool:
    """A daemon that ends leaves it to the next one."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _ended(launch: Launch) -> str:
    if launch.exit_signal:
        return f"its server was ended by signal {launch.exit_signal}"
    if launch.exit_code is not None:
        return f"its server ended with exit status {launch.exit_code}"
    return f"its server is {launch.state}, and why is not known"
