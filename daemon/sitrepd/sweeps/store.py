"""How a sweep and its trials are written down: each step in one transaction, with the event that tells of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlmodel import Session, col, select

from sitrepd import facts, redact
from sitrepd.clock import utc_now
from sitrepd.facts import Scope
from sitrepd.storage import events, ids
from sitrepd.sweeps.asked import SweepAsked
from sitrepd.sweeps.grid import Combination
from sitrepd.sweeps.models import OVER, Sweep, SweepCreate, Trial, TrialCreate
from sitrepd.sweeps.plan import Plan
from sitrepd.sweeps.template import Template, kept


def insert(db: Session, scope: Scope, plan: Plan) -> Sweep:
    """A sweep to run, with its trials; of a search the baseline alone, the others are chosen as it goes."""
    asked = plan.asked
    told = SweepCreate.model_validate(
        {
            "name": asked.name,
            "template": _said(kept(plan.base)),
            "parameters": {**plan.grid.values, **asked.derived},
            "constraints": list(asked.constraints) or None,
            "state": "planned",
        }
    )
    row: Sweep = facts.tell(db, scope.registry.by_word["sweep"], told, scope)
    row.plan = {
        "asked": asked_kept(asked),
        "template": kept(plan.base),
        "metric": plan.told.metric,
        "count": plan.told.count,
    }
    db.add(row)
    chosen = plan.combinations if asked.searching.method == "grid" else [c for c in plan.combinations if c.baseline]
    add_trials(db, scope, row, chosen[: plan.told.count])
    return row


def asked_kept(asked: SweepAsked) -> dict[str, Any]:
    """What was asked for without secrets; the template is kept apart, and the caller's surroundings are not."""
    kept_of: dict[str, Any] = redact.redact_json(
        asked.model_dump(mode="json", by_alias=True, exclude={"caller", "template"})
    )
    return kept_of


def secrets_of(asked: SweepAsked) -> dict[str, str]:
    """What stands in the benchmarks for the references that are kept of it, by name."""
    found: dict[str, str] = {}
    for one in asked.benchmarks:
        env = one.env or {}
        found |= redact.secret_references(one.flags, redact.redact_argv(one.flags))
        found |= redact.secret_references(env, redact.redact_env(env))
    return found


def asked_of(sweep: Sweep) -> SweepAsked:
    """As it was asked for, but for its template."""
    return SweepAsked.model_validate({**(sweep.plan or {})["asked"], "template": {"argv": ["-"]}})


def _said(template: Template) -> dict[str, Any]:
    return {name: template[name] for name in ("from_launch", "command", "argv", "cwd") if template.get(name)}


def add_trials(db: Session, scope: Scope, sweep: Sweep, chosen: Sequence[Combination]) -> list[Trial]:
    """Planned trials, behind those that are there."""
    places = db.exec(select(Trial.place).where(col(Trial.sweep_id) == sweep.id)).all()
    at = max((place for place in places if place is not None), default=0)
    noun, found = scope.registry.by_word["trial"], []
    for one in chosen:
        at += 1
        told = TrialCreate(
            sweep=ids.public_id("W", sweep.id or 0), state="planned", name=one.label[:500], settings=one.settings,
            baseline=one.baseline or None,
        )  # fmt: skip
        row: Trial = facts.tell(db, noun, told, scope)
        row.place, row.attempt = at, 0
        db.add(row)
        found.append(row)
    return found


def set_sweep(db: Session, number: int, **columns: Any) -> Sweep:
    """Change a sweep; that its state has changed is told by the event."""
    row = db.get(Sweep, number)
    assert row is not None
    changed = [name for name, value in columns.items() if getattr(row, name) != value]
    for name in changed:
        setattr(row, name, columns[name])
    if "state" in changed:
        row.started_at = row.started_at or (utc_now() if row.state == "running" else None)
        row.ended_at = utc_now() if row.state in OVER else None
    if changed:
        db.add(row)
        fields = [name for name in changed if name != "plan"]
        events.record(db, "sweep.changed", ids.public_id("W", number), row.session_id, fields=sorted(fields))
    return row


def begin(db: Session, number: int) -> None:
    """It runs, unless somebody has paused or stopped it since it was looked at."""
    row = db.get(Sweep, number)
    if row is not None and row.state == "planned":
        set_sweep(db, number, state="running", why=None, halt=None)


def wait_for_somebody(db: Session, number: int, why: str) -> None:
    """It pauses, and says why; one that was stopped meanwhile stays so."""
    row = db.get(Sweep, number)
    if row is not None:
        set_sweep(db, number, state=row.state if row.state in OVER else "paused", why=why, halt=None)


def set_trial(db: Session, number: int, **columns: Any) -> Trial:
    row = db.get(Trial, number)
    assert row is not None
    changed = [name for name, value in columns.items() if getattr(row, name) != value]
    for name in changed:
        setattr(row, name, columns[name])
    if changed:
        db.add(row)
        told = [name for name in changed if name not in ("boot", "launch_number", "outcome")]
        events.record(db, "trial.changed", str(number), row.session_id, fields=sorted(told))
    return row


def end_trial(db: Session, number: int, state: str, why: str | None = None) -> Trial:
    return set_trial(db, number, state=state, why=why, step=None, outcome=None, ended_at=utc_now())


def again(db: Session, number: int, why: str | None) -> Trial:
    """Back to where nothing of it has been done; its attempts are counted."""
    return set_trial(
        db, number, state="planned", why=why, step=None, outcome=None, launch_id=None, launch_number=None, boot=None,
        benchmarks=[], started_at=None, ended_at=None,
    )  # fmt: skip


def trials(db: Session, sweep: int) -> list[Trial]:
    """In the order in which they are run."""
    query = select(Trial).where(col(Trial.sweep_id) == sweep).order_by(col(Trial.place), col(Trial.id))
    return list(db.exec(query).all())


def running_trial(db: Session, sweep: int) -> Trial | None:
    query = select(Trial).where(col(Trial.sweep_id) == sweep, col(Trial.state) == "running")
    return db.exec(query.order_by(col(Trial.id))).first()
