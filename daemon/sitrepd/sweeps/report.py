"""What sweeps say in a checkpoint: how far they are, what is next, what won and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sitrepd import reporting as r
from sitrepd.sections import Report, Section, of_now
from sitrepd.storage import ids
from sitrepd.sweeps import results, words
from sitrepd.sweeps.eta import left

_LATEST = 50
_UNDER_WAY = ("planned", "running", "paused")
_TRIALS = 1000
_HEAD_PRIORITY, _TRIALS_PRIORITY = 18, 30
_SWEEP = ("id", "name", "template", "parameters", "constraints", "state", "why", "plan", "result")
_TRIAL = (
    "id", "sweep_id", "launch_id", "benchmarks", "state", "name", "baseline", "settings", "why", "place", "step",
    "started_at", "ended_at",
)  # fmt: skip


def report(report: Report) -> list[Section]:
    """Section `sweeps`, and what one that is not over yet says under `now`."""
    found = r.rows(report, "sweep", _SWEEP, limit=_LATEST)
    trials: dict[int, list[Any]] = {}
    if found:
        for trial in r.rows(report, "trial", _TRIAL, limit=_TRIALS):
            trials.setdefault(trial.sweep_id, []).append(trial)
    items = [item for row in found for item in items_of(report, row, in_order(trials.get(row.id, ())))]
    earlier = r.count(report, "sweep") - len(found) if len(found) == _LATEST else 0
    now = [_now_item(item) for item in items if item.get("managed") and item.get("state") in _UNDER_WAY]
    return [
        *([of_now(now)] if now else ()),
        Section(
            name="sweeps", title="Sweeps", order=95, priority=62, items=items,
            data=r.present(earlier=earlier or None), more="sitrep sweep list",
        )
    ]  # fmt: skip


def _now_item(item: dict[str, Any]) -> dict[str, Any]:
    """What is under way and what is next, which no budget leaves out."""
    names = ("id", "ids", "name", "state", "why", "present", "next", "left", "over", "count", "live")
    kept = {name: item[name] for name in names if name in item}
    return {"kind": "sweep", "what": "the sweep under way", "priority": 4, "order": 5, **kept}


def in_order(trials: Sequence[Any]) -> list[Any]:
    """As they are run; those that were only told, as they were told."""
    return sorted(trials, key=lambda one: (one.place if one.place is not None else 0, one.id))


def items_of(report: Report, row: Any, trials: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """A sweep and what became of its trials, in their order; of one that was measured, what won comes before all that
    is told of single trials."""
    item = _item(report, row, trials)
    varied = _varied(row)
    told = item.pop("trials")
    if not told:
        yield item | {"varied": varied} | ({"priority": _HEAD_PRIORITY} if item.get("managed") else {})
        return
    first = bool(item.get("managed") or item.get("best"))
    yield item | ({"priority": _HEAD_PRIORITY} if first else {})
    yield {
        "kind": "trials", "ids": item["ids"], "sweep": item["id"], "trials": told, "varied": varied,
    } | ({"priority": _TRIALS_PRIORITY} if first else {}) | r.present(managed=item.get("managed"))  # fmt: skip


def _varied(row: Any) -> dict[str, Any]:
    told = {"parameters": words.parameters(row.parameters), "constraints": words.constraints(row.constraints)}
    return r.present(**told) | words.template(row.template)


def _item(report: Report, row: Any, trials: Sequence[Any]) -> dict[str, Any]:
    public = ids.public_id("W", row.id)
    result = results.of_sweep(report.db, row, trials, report.session.best_metric)
    by_trial = {one["trial"]: one for one in result.get("rows", ())}
    unit = result.get("unit")
    told = [trial_item(trial, by_trial.get(trial.id), unit) for trial in trials]
    item = {"id": public, "ids": [public], "trials": told} | r.present(
        name=row.name, template=row.template, parameters=row.parameters, constraints=row.constraints, state=row.state,
        why=row.why, best=_best(trials, by_trial, unit),
    )  # fmt: skip
    over = sum(one.state not in ("planned", "running") for one in trials)
    if row.plan is None:
        counted = {"count": len(trials), "over": over if all(one.state for one in trials) else None}
        return item | (r.present(metric=result.get("metric"), **counted) if trials else {})
    following = next((one for one in trials if one.state == "planned"), None)
    present = next((one for one in trials if one.state == "running"), None)
    ahead = left(trials, row.plan.get("count", 0), report.now, report.live.get("launches"))
    count = max(row.plan.get("count", 0), len(trials))
    item |= {"managed": True, "left": ahead.trials, "over": over, "count": count} | r.present(
        metric=row.plan.get("metric"), next=following.name if following is not None else None,
        present=_present(present) if present is not None else None,
    )  # fmt: skip
    if ahead.seconds is not None and row.state == "running":
        item["live"] = {
            "remaining_s": round(ahead.seconds), "remaining_low_s": round(ahead.low or 0),
            "remaining_high_s": round(ahead.high or 0),
        }  # fmt: skip
    return item


def _present(trial: Any) -> dict[str, Any]:
    return r.present(name=trial.name, step=trial.step, launch=r.public("L", trial.launch_id), why=trial.why)


def trial_item(trial: Any, measured: Mapping[str, Any] | None, unit: str | None) -> dict[str, Any]:
    told = r.present(
        launch=r.public("L", trial.launch_id), benchmarks=trial.benchmarks, state=trial.state, name=trial.name,
        baseline=trial.baseline or None, settings=trial.settings, why=trial.why,
        label=trial.name or words.settings(trial.settings) or None,
    )  # fmt: skip
    if measured is not None:
        told["measured"] = r.present(
            value=measured["value"], unit=unit, runs=measured["runs"], difference=measured.get("difference"),
            verdict=measured.get("verdict"), best=measured.get("best") or None, marks=measured.get("marks"),
        )  # fmt: skip
    return told


def _best(trials: Sequence[Any], by_trial: Mapping[int, Mapping[str, Any]], unit: str | None) -> Any:
    names = {trial.id: trial.name or words.settings(trial.settings) or "a trial" for trial in trials}
    found = [one for one in by_trial.values() if one.get("best")]
    return [
        r.present(
            name=names.get(one["trial"]), value=one["value"], unit=unit, runs=one["runs"],
            difference=one.get("difference"), verdict=one.get("verdict"), baseline=one.get("baseline") or None,
            benchmarks=one.get("benchmarks"),
        )
        for one in found
    ]  # fmt: skip
