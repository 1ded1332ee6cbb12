"""What people do with a sweep that runs: pause, resume, stop, reorder, extend, retry. All of it is a change of rows,
which the runner sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlmodel import Session

from sitrepd import redact
from sitrepd.errors import Conflict, InvalidFact
from sitrepd.facts import Scope
from sitrepd.storage import ids
from sitrepd.sweeps import store, template
from sitrepd.sweeps.asked import MOST_TRIALS
from sitrepd.sweeps.grid import grid_of, plain, trials_of
from sitrepd.sweeps.models import OVER, Sweep, Trial
from sitrepd.sweeps.store import asked_of


def managed(row: Sweep) -> Sweep:
    """Raises Conflict for a sweep that was only told."""
    if row.plan is None:
        name = ids.public_id("W", row.id or 0)
        raise Conflict(f"{name} was told, and is not run by this daemon; `sitrep sweep run FILE` runs one.")
    return row


def pause(db: Session, row: Sweep, why: str | None, *, now: bool) -> None:
    """The present trial is finished first, or with `now` given up and done anew later."""
    managed(row)
    if row.state not in ("running", "planned", "paused"):
        raise Conflict(f"{ids.public_id('W', row.id or 0)} is {row.state}: there is nothing to pause.")
    store.set_sweep(db, row.id or 0, state="paused", why=why or "asked to", halt=now or row.halt or None)


def resume(db: Session, row: Sweep) -> None:
    managed(row)
    name = ids.public_id("W", row.id or 0)
    if row.state in ("running", "planned"):
        raise Conflict(f"{name} is {row.state} already.")
    planned = [one for one in store.trials(db, row.id or 0) if one.state in ("planned", "running")]
    if not planned and not _may_choose(db, row):
        raise Conflict(
            f"{name} has no trial left: `sitrep sweep extend {name}` adds some, `sitrep sweep retry` repeats."
        )
    store.set_sweep(db, row.id or 0, state="planned", why=None, halt=None)


def _may_choose(db: Session, row: Sweep) -> bool:
    """Whether a search has trials left to choose."""
    return asked_of(row).searching.method != "grid" and len(store.trials(db, row.id or 0)) < (row.plan or {})["count"]


def stop(db: Session, row: Sweep, why: str | None) -> None:
    """Its server is stopped; what was measured stays, and it may be resumed."""
    managed(row)
    if row.state in OVER:
        raise Conflict(f"{ids.public_id('W', row.id or 0)} is {row.state} already.")
    store.set_sweep(db, row.id or 0, state="stopped", why=why or "asked to", halt=True)


def reorder(db: Session, row: Sweep, first: Sequence[int]) -> None:
    """These planned trials first, in this order; the others after them as they were."""
    managed(row)
    every = store.trials(db, row.id or 0)
    planned = {one.id: one for one in every if one.state == "planned"}
    wrong = [one for one in first if one not in planned]
    if wrong or len(set(first)) < len(first):
        listed = ", ".join(map(str, planned)) or "none"
        raise InvalidFact(f"trials: {wrong[0] if wrong else first} cannot be put in order; planned ones are {listed}.")
    begun = max((one.place or 0 for one in every if one.state != "planned"), default=0)
    order = [*first, *(number for number in planned if number not in first)]
    for at, number in enumerate(order):
        store.set_trial(db, number or 0, place=begun + 1 + at)


def extend(db: Session, scope: Scope, row: Sweep, more: Mapping[str, Sequence[Any]], trials: int | None) -> list[Trial]:
    """More values of parameters, and the combinations that come with them; of a search, so many more trials."""
    managed(row)
    plan = row.plan or {}
    asked, grid = asked_of(row), grid_of(asked_of(row))
    values = {name: list(known) for name, known in grid.values.items()}
    for name, told in more.items():
        if name not in values:
            raise InvalidFact(f"{name} is no parameter of the sweep; there are {', '.join(values)}.")
        values[name] += [one for value in told if (one := plain(name, value)) not in values[name]]
    asked = asked.model_copy(update={"parameters": values})
    grid, searching = grid_of(asked), asked.searching.method != "grid"
    if searching and trials is None and not more:
        raise InvalidFact("Say by how many trials: --trials N.")
    known = [one.settings for one in store.trials(db, row.id or 0)]
    new = [] if searching else [one for one in trials_of(asked, grid) if one.settings not in known and not one.baseline]
    if not searching and not new:
        raise InvalidFact("That adds no combination that is not there already.")
    count = plan["count"] + (trials or 0) if searching else len(known) + len(new)
    if count > MOST_TRIALS:
        raise InvalidFact(f"That would be {count} trials; {MOST_TRIALS} are the most.")
    _check(plan["template"], new)
    row.plan = {**plan, "asked": store.asked_kept(asked), "count": count}
    row.parameters = redact.redact_json(values | dict(asked.derived))
    db.add(row)
    added = store.add_trials(db, scope, row, new)
    _wake(db, row)
    return added


def _check(kept: template.Template, new: Sequence[Any]) -> None:
    """What could not be made into a command is refused before it is stored."""
    secrets = {name: f"${{{name}}}" for name in kept.get("secrets", ())}
    told = {name: f"${{{name}}}" for name in kept.get("told_env") or ()}
    base = template.filled(kept, {**told, **secrets})
    for one in new:
        template.trial_body(base, one.settings, "W0-0")


def retry(db: Session, trial: Trial) -> None:
    """A trial that failed or was skipped, anew; the sweep goes on for it."""
    row = db.get(Sweep, trial.sweep_id)
    if row is None:
        raise Conflict(f"Trial {trial.id} belongs to no sweep.")
    managed(row)
    if trial.state not in ("failed", "skipped", "done"):
        raise Conflict(f"Trial {trial.id} is {trial.state}: one that has ended can be done anew.")
    store.again(db, trial.id or 0, None)
    _wake(db, row)


def _wake(db: Session, row: Sweep) -> None:
    """A sweep that was over has something to do again."""
    if row.state in ("done", "failed"):
        store.set_sweep(db, row.id or 0, state="planned", why=None, halt=None)
