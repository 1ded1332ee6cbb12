"""HTTP of sweeps: check one, run it, see how far it is, change what it will do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field
from sqlmodel import Session

from sitrepd import facts
from sitrepd.benchmarks.compare import BEST_METRIC
from sitrepd.errors import Conflict, InvalidFact, NoSession, UnknownId
from sitrepd.facts import Scope
from sitrepd.routing import FactId, HintDep, ReadDep, RuntimeDep, TellerDep, api_router, fact_routes, problems
from sitrepd.runtime import Runtime
from sitrepd.sessions import current
from sitrepd.shapes import Flag, Name, Shape, Text, Whole
from sitrepd.sweeps import control, store
from sitrepd.sweeps.asked import MOST_TRIALS, SweepAsked, Value
from sitrepd.sweeps.models import Sweep, Trial
from sitrepd.sweeps.plan import Plan, Planned, plan
from sitrepd.sweeps.service import Sweeps
from sitrepd.sweeps.slice import SLICE, SWEEP, TRIAL
from sitrepd.sweeps.view import SweepStatus, status

router = api_router("sweeps")
_KNOWN: dict[str, Any] = {"responses": problems(UnknownId, Conflict), "response_model_exclude_none": True}


class PauseIn(Shape):
    now: Flag = Field(False, description="Stop the present trial, which is then done anew; else it is finished first.")
    why: Text | None = None


class ResumeIn(Shape):
    caller_env: dict[str, Text] | None = Field(
        None, description="The caller's environment, from which secrets are taken; it is not stored."
    )


class StopSweepIn(Shape):
    why: Text | None = None


class ReorderIn(Shape):
    trials: list[Text] = Field(min_length=1, description="Ids of planned trials: these first, in this order.")


class ExtendIn(Shape):
    parameters: dict[Name, list[Value | list[Text]]] = Field(
        default_factory=dict, description="Further values by parameter."
    )
    trials: Whole | None = Field(None, ge=1, le=MOST_TRIALS, description="Further trials of a search.")


class Extended(BaseModel):
    """The trials that came with it."""

    added: list[str]
    sweep: SweepStatus


@router.post(
    "/sweeps/check", name="check_sweep", response_model=Planned, response_model_exclude_none=True,
    responses=problems(InvalidFact, UnknownId, Conflict),
)  # fmt: skip
async def check(body: SweepAsked, runtime: RuntimeDep, hint: HintDep) -> Planned:
    """Its trials with their commands, and what speaks against them; nothing is stored, nothing is started."""
    return (await _plan(runtime, body, hint))[0].told


@router.post(
    "/sweeps/run", name="run_sweep", response_model=SweepStatus, response_model_exclude_none=True, status_code=201,
    responses=problems(InvalidFact, UnknownId, Conflict, NoSession),
)  # fmt: skip
async def run(body: SweepAsked, runtime: RuntimeDep, hint: HintDep, teller: TellerDep) -> SweepStatus:
    """Store a sweep and carry it out, after those that run already; what `check` refuses is refused."""
    planned, _ = await _plan(runtime, body, hint)

    def job(db: Session) -> Sweep:
        return store.insert(db, Scope(runtime.registry, teller, current.resolve(db, hint)), planned)

    row = await runtime.store.write_async(job)
    service: Sweeps = runtime.live["sweeps"]
    own = (body.caller.env if body.caller else None) or {}
    service.remember(row.id or 0, {**own, **store.secrets_of(body)})
    runtime.activity.touch(row.session_id)
    with runtime.store.read() as db:
        return status(db, runtime, _sweep(db, f"W{row.id}"))


async def _plan(runtime: Runtime, body: SweepAsked, hint: current.Hint) -> tuple[Plan, int | None]:
    with runtime.store.read() as db:
        number = current.resolve_or_none(db, hint)
        session: Any = db.get(runtime.registry.by_word["session"].table, number) if number else None
    metric = body.metric or (session.best_metric if session else None) or BEST_METRIC
    return await plan(runtime, body, metric), number


@router.get("/sweeps/{fact_id}/status", name="get_sweep_status", response_model=SweepStatus, **_KNOWN)
def read_status(fact_id: FactId, db: ReadDep, runtime: RuntimeDep) -> SweepStatus:
    """Its trials with what they measured, what is next, and how long still; asking is no activity."""
    return status(db, runtime, _sweep(db, fact_id))


@router.post("/sweeps/{fact_id}/pause", name="pause_sweep", response_model=SweepStatus, **_KNOWN)
async def pause(fact_id: FactId, runtime: RuntimeDep, body: PauseIn | None = None) -> SweepStatus:
    """Begin no further trial until it is resumed."""
    asked = body or PauseIn(now=False, why=None)
    return await _change(runtime, fact_id, lambda db, row: control.pause(db, row, asked.why, now=asked.now))


@router.post("/sweeps/{fact_id}/resume", name="resume_sweep", response_model=SweepStatus, **_KNOWN)
async def resume(fact_id: FactId, runtime: RuntimeDep, body: ResumeIn | None = None) -> SweepStatus:
    """Go on with a sweep that is paused, or was stopped."""
    service: Sweeps = runtime.live["sweeps"]
    with runtime.store.read() as db:
        service.remember(_sweep(db, fact_id).id or 0, body.caller_env if body else None)
    return await _change(runtime, fact_id, control.resume)


@router.post("/sweeps/{fact_id}/stop", name="stop_sweep", response_model=SweepStatus, **_KNOWN)
async def stop(fact_id: FactId, runtime: RuntimeDep, body: StopSweepIn | None = None) -> SweepStatus:
    """End it: the server of the present trial is stopped, what was measured stays."""
    return await _change(runtime, fact_id, lambda db, row: control.stop(db, row, body.why if body else None))


@router.post("/sweeps/{fact_id}/reorder", name="reorder_sweep", response_model=SweepStatus, **_KNOWN)
async def reorder(fact_id: FactId, body: ReorderIn, runtime: RuntimeDep) -> SweepStatus:
    """Put planned trials first."""

    def job(db: Session, row: Sweep) -> None:
        control.reorder(db, row, [facts.number_of(db, TRIAL, one) for one in body.trials])

    return await _change(runtime, fact_id, job)


@router.post("/sweeps/{fact_id}/extend", name="extend_sweep", response_model=Extended, **_KNOWN)
async def extend(fact_id: FactId, body: ExtendIn, runtime: RuntimeDep, teller: TellerDep) -> Extended:
    """Add values of parameters, with the combinations that come with them, or trials to a search."""
    added: list[Trial] = []

    def job(db: Session, row: Sweep) -> None:
        scope = Scope(runtime.registry, teller, row.session_id)
        added[:] = control.extend(db, scope, row, body.parameters, body.trials)

    told = await _change(runtime, fact_id, job)
    return Extended(added=[str(one.id) for one in added], sweep=told)


@router.post("/trials/{fact_id}/retry", name="retry_trial", response_model=SweepStatus, **_KNOWN)
async def retry(fact_id: FactId, runtime: RuntimeDep) -> SweepStatus:
    """Do a trial anew that failed or was skipped."""

    def job(db: Session) -> tuple[int, int | None]:
        row: Trial = facts.get(db, TRIAL, fact_id)
        control.retry(db, row)
        return row.sweep_id or 0, row.session_id

    number, session_id = await runtime.store.write_async(job)
    runtime.activity.touch(session_id)
    with runtime.store.read() as db:
        return status(db, runtime, _sweep(db, f"W{number}"))


async def _change(runtime: Runtime, fact_id: str, change: Callable[[Session, Sweep], Any]) -> SweepStatus:
    def job(db: Session) -> int | None:
        row = _sweep(db, fact_id)
        change(db, row)
        return row.session_id

    runtime.activity.touch(await runtime.store.write_async(job))
    with runtime.store.read() as db:
        return status(db, runtime, _sweep(db, fact_id))


def _sweep(db: Session, fact_id: str) -> Sweep:
    row: Sweep = facts.get(db, SWEEP, fact_id)
    return row


def routers() -> Sequence[APIRouter]:
    """The sweep's own routes first, then those that every noun has."""
    return router, *(fact_routes(noun) for noun in SLICE.nouns)
