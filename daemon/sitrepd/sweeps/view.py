"""A sweep at this moment: its trials with what they measured, what is next, how long still."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from pydantic import BaseModel, Field
from sqlmodel import Session

from sitrepd.clock import utc_now
from sitrepd.runtime import Runtime
from sitrepd.storage import ids
from sitrepd.sweeps import results, store
from sitrepd.sweeps.eta import left
from sitrepd.sweeps.models import Sweep, Trial


class TrialStatus(BaseModel):
    """A trial, and what its runs came to beside the baseline."""

    id: str
    name: str | None = None
    state: str | None = None
    step: str | None = None
    why: str | None = None
    baseline: bool = False
    settings: dict[str, Any] | None = None
    launch: str | None = None
    benchmarks: list[str] = Field(default_factory=list)
    attempt: int | None = None
    value: str | None = Field(None, description="The mean of the metric that decides.")
    runs: int | None = None
    difference: str | None = None
    verdict: str | None = None
    best: bool = False
    marks: list[str] = Field(default_factory=list)
    seconds: float | None = Field(None, description="How long it took, or has taken so far.")


class SweepStatus(BaseModel):
    """How far a sweep is; times left are absent until a trial has been measured."""

    id: str
    name: str | None = None
    state: str | None = None
    why: str | None = None
    metric: str | None = None
    unit: str | None = None
    method: str | None = Field(None, description="How the verdicts are made.")
    trials: list[TrialStatus]
    count: int = Field(description="How many trials there will be at the most.")
    over: int
    left: int = Field(description="Trials that have not begun.")
    next: str | None = None
    remaining_s: float | None = None
    remaining_low_s: float | None = None
    remaining_high_s: float | None = None
    done_at: datetime | None = Field(None, description="When it will be done, if it goes on as it did.")
    notes: list[str] = Field(default_factory=list)


def status(db: Session, runtime: Runtime, row: Sweep) -> SweepStatus:
    trials, plan, now = store.trials(db, row.id or 0), row.plan or {}, utc_now()
    session: Any = db.get(runtime.registry.by_word["session"].table, row.session_id)
    result = results.of_sweep(db, row, trials, session.best_metric if session is not None else None)
    measured = {one["trial"]: one for one in result.get("rows", ())}
    count = max(plan.get("count", 0), len(trials))
    ahead = left(trials, count, now, runtime.live.get("launches"))
    goes_on = ahead.seconds is not None and row.state in ("running", "planned")
    return SweepStatus(
        id=ids.public_id("W", row.id or 0),
        name=row.name,
        state=row.state,
        why=row.why,
        metric=plan.get("metric") or result.get("metric"),
        unit=result.get("unit"),
        method=result.get("method"),
        trials=[_trial(one, measured.get(one.id), now) for one in trials],
        count=count,
        over=sum(one.state not in ("planned", "running") for one in trials),
        left=ahead.trials,
        next=next((one.name for one in trials if one.state == "planned"), None),
        remaining_s=round(ahead.seconds, 1) if goes_on and ahead.seconds is not None else None,
        remaining_low_s=round(ahead.low, 1) if goes_on and ahead.low is not None else None,
        remaining_high_s=round(ahead.high, 1) if goes_on and ahead.high is not None else None,
        done_at=now + timedelta(seconds=ahead.seconds) if goes_on and ahead.seconds is not None else None,
        notes=result.get("notes", []),
    )


def _trial(row: Trial, measured: dict[str, Any] | None, now: datetime) -> TrialStatus:
    told = measured or {}
    seconds = ((row.ended_at or now) - row.started_at).total_seconds() if row.started_at else None
    return TrialStatus(
        id=str(row.id), name=row.name, state=row.state, step=row.step, why=row.why, baseline=bool(row.baseline),
        settings=row.settings, launch=ids.public_id("L", row.launch_id) if row.launch_id else None,
        benchmarks=row.benchmarks, attempt=row.attempt, value=told.get("value"), runs=told.get("runs"),
        difference=told.get("difference"), verdict=told.get("verdict"), best=bool(told.get("best")),
        marks=told.get("marks") or [], seconds=round(seconds, 1) if seconds is not None else None,
    )  # fmt: skip
