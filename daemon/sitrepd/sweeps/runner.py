"""Carries a sweep out: a trial, its end, and which trial is next."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from sqlmodel import Session

from sitrepd.clock import utc_now
from sitrepd.errors import SitrepError
from sitrepd.facts import Scope
from sitrepd.launches.models import Launch
from sitrepd.runtime import Runtime
from sitrepd.sweeps import results, search, store
from sitrepd.sweeps.grid import Combination, grid_of
from sitrepd.sweeps.models import OVER, Sweep, Trial
from sitrepd.sweeps.plan import known_secrets
from sitrepd.sweeps.trial import TELLER, Carried, Paused

log = logging.getLogger(__name__)
_QUIET_S = 30.0
_ALIKE = 3
_NUMBERS = re.compile(r"\d+(?:\.\d+)?")


class Runner:
    """Takes a sweep one trial further; what it does follows from the rows alone."""

    def __init__(self, runtime: Runtime, secrets: Mapping[int, dict[str, str]]) -> None:
        self.runtime = runtime
        self._secrets = secrets

    async def advance(self, sweep: Sweep) -> None:
        """One trial of it, or its end."""
        number = sweep.id or 0
        with self.runtime.store.read() as db:
            trial = store.running_trial(db, number)
        if trial is None:
            if sweep.state == "planned":
                await self._write(lambda db: store.begin(db, number))
            trial = await self._next_trial(number)
        if trial is None:
            return
        try:
            await self._carry(sweep, trial)
        except Paused as paused:
            await self._pause(number, trial.id or 0, str(paused))
        except SitrepError as error:
            await self._pause(number, trial.id or 0, error.detail)
        except Exception as error:
            log.exception("W%d cannot go on", number)
            await self._pause(number, trial.id or 0, f"Sitrep itself failed: {type(error).__name__}: {error}")
        else:
            await self._write(lambda db: _look_for_a_row_of_failures(db, number))

    async def _carry(self, sweep: Sweep, trial: Trial) -> None:
        """The trial, unless it is to be given up."""
        number = sweep.id or 0
        known = known_secrets(self._secrets.get(number))
        carried = Carried(self.runtime, sweep, trial.id or 0, known)
        if self._halted(number):
            await carried.give_up("given up when the sweep was halted")
            return
        work = asyncio.ensure_future(carried.do())
        halt = asyncio.ensure_future(self._until_halted(number))
        try:
            await asyncio.wait({work, halt}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)
                await carried.give_up("given up when the sweep was halted")
            else:
                work.result()
        finally:
            for task in (work, halt):
                task.cancel()
            await asyncio.gather(work, halt, return_exceptions=True)

    def _halted(self, number: int) -> bool:
        with self.runtime.store.read() as db:
            row = db.get(Sweep, number)
        return row is None or row.state in OVER or bool(row.halt)

    async def _until_halted(self, number: int) -> None:
        async for _ in self.runtime.store.bell.listen(_QUIET_S, "sweep."):
            if await asyncio.to_thread(self._halted, number):
                return
        await asyncio.Event().wait()

    # --- what is next --------------------------------------------------------------------------------------------

    async def _next_trial(self, number: int) -> Trial | None:
        """The next planned trial, now running; None where there is none, and the sweep is done."""
        chosen = await asyncio.to_thread(self._chosen, number)
        return await self.runtime.store.write_async(lambda db: self._take(db, number, chosen))

    def _chosen(self, number: int) -> Combination | None:
        """Of a search that has trials left and none planned: what its sampler says."""
        with self.runtime.store.read() as db:
            sweep, trials = db.get(Sweep, number), store.trials(db, number)
            if sweep is None or any(one.state == "planned" for one in trials):
                return None
            asked = store.asked_of(sweep)
            if asked.searching.method == "grid" or len(trials) >= (sweep.plan or {})["count"]:
                return None
            metric = (sweep.plan or {})["metric"]
            values = results.values_of(db, trials, metric, results.first_of(asked))
        by_trial = {one.trial: one.mean for one in values}
        grid = grid_of(asked)
        own = {one.id: {name: (one.settings or {}).get(name) for name in grid.values} for one in trials}
        tried = [own[one.id] for one in trials if not one.baseline or grid.allows(grid.combination(own[one.id]))]
        measured = [(own[number], mean) for number, mean in by_trial.items()]
        higher = results.higher_is_better(metric)
        return search.next_of(asked.searching, grid, tried, measured, higher)

    def _take(self, db: Session, number: int, chosen: Combination | None) -> Trial | None:
        sweep = db.get(Sweep, number)
        if sweep is None or sweep.state != "running":
            return None
        scope = Scope(self.runtime.registry, TELLER, sweep.session_id)
        if chosen is not None:
            store.add_trials(db, scope, sweep, [chosen])
        trials = store.trials(db, number)
        planned = [one for one in trials if one.state == "planned"]
        spent = _spent(sweep, trials)
        if spent is not None:
            for one in planned:
                store.end_trial(db, one.id or 0, "skipped", spent)
            planned = []
        if not planned:
            failed = all(one.state == "failed" for one in trials)
            why = spent or ("every trial failed" if failed else None)
            store.set_sweep(db, number, state="failed" if failed else "done", why=why)
            return None
        return store.set_trial(db, planned[0].id or 0, state="running", started_at=utc_now(), why=None)

    async def _pause(self, number: int, trial: int, why: str) -> None:
        """Until somebody has looked; the trial goes on from where it is then."""

        def job(db: Session) -> None:
            row = db.get(Trial, trial)
            if row is not None and row.state == "running" and db.get(Launch, row.launch_number or 0) is None:
                store.again(db, trial, None)
            elif row is not None and row.state == "running":
                store.end_trial(db, trial, "failed", why)
            store.wait_for_somebody(db, number, why)

        await self._write(job)

    async def _write(self, job: Any) -> Any:
        return await self.runtime.store.write_async(job)


def _spent(sweep: Sweep, trials: Sequence[Trial]) -> str | None:
    budget = store.asked_of(sweep).budget
    begun = [one for one in trials if one.state != "planned"]
    if budget.trials is not None and len(begun) >= budget.trials:
        return f"the budget of {budget.trials} trials is spent"
    if budget.hours is not None and sweep.started_at and utc_now() - sweep.started_at > timedelta(hours=budget.hours):
        return f"the budget of {budget.hours:g} hours is spent"
    return None


def _look_for_a_row_of_failures(db: Session, number: int) -> None:
    """Three that fail the same way are no accident of their settings: somebody should look before the night is over."""
    sweep = db.get(Sweep, number)
    ended = [one for one in store.trials(db, number) if one.ended_at is not None]
    last = sorted(ended, key=lambda one: (one.ended_at, one.id))[-_ALIKE:]
    ways = {_NUMBERS.sub("#", one.why or "") for one in last if one.state == "failed"}
    left = any(one.state == "planned" for one in store.trials(db, number))
    if sweep is None or sweep.state != "running" or len(last) < _ALIKE or len(ways) != 1 or not left:
        return
    if any(one.state != "failed" for one in last):
        return
    why = f"{_ALIKE} trials in a row have failed the same way: {last[-1].why}"
    store.set_sweep(db, number, state="paused", why=why)
