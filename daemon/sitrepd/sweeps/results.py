"""What the trials measured, compared with the baseline; and which trial cannot win any more."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from statistics import fmean
from typing import Any

from sqlmodel import Session, col, select

from sitrepd.benchmarks.compare import BEST_METRIC, compare
from sitrepd.benchmarks.groups import Run, repeated
from sitrepd.benchmarks.marks import FAILED, marks_of
from sitrepd.benchmarks.metrics import Metric, describe, display_text
from sitrepd.benchmarks.models import Benchmark, BenchmarkMetric
from sitrepd.benchmarks.statistics import mean_interval, sample
from sitrepd.benchmarks.verdicts import METHOD, sureness, verdicts
from sitrepd.sweeps.asked import EarlyStopIn, SweepAsked
from sitrepd.sweeps.models import Trial

_MEASURED = ("done", "skipped", "running")


def of_sweep(db: Session, row: Any, trials: Sequence[Any], metric: str | None) -> Mapping[str, Any]:
    """As it was kept when each trial ended; of a sweep that was told or imported, worked out from its benchmarks."""
    if row.plan is not None:
        return row.result or {}
    if not any(trial.benchmarks for trial in trials):
        return {}
    found = compared(db, trials, metric or BEST_METRIC, None, by_trial=True)
    return found if found.get("rows") else {}


def compared(
    db: Session, trials: Sequence[Any], metric: str, first: str | None, *, by_trial: bool = False
) -> dict[str, Any]:
    """One row for each trial that has measured the metric; of several benchmarks, the `first` decides."""
    runs = runs_of(db, trials, metric, by_trial=by_trial)
    chosen = {one: run for one, run in runs.items() if metric in run.metrics and _is_of(run, first)}
    found = compare(list(chosen.values()), metric)
    told = {verdict_id: at for at, row in enumerate(found.rows) for verdict_id in row.ids}
    judged = verdicts(found, {})
    of_trial = {one: trial for trial in trials for one in trial.benchmarks}
    rows: dict[int, dict[str, Any]] = {}
    for one, at in told.items():
        row, verdict, trial = found.rows[at], judged[at], of_trial[one]
        if trial.id in rows:
            continue
        rows[trial.id or 0] = {
            "trial": trial.id,
            "benchmarks": [other for other in row.ids if of_trial[other] is trial],
            "value": display_text(row.value),
            "runs": len(row.ids),
            "difference": row.difference,
            "verdict": sureness(row, verdict) or None,
            "best": row.best,
            "baseline": row.baseline,
            "marks": list(row.marks),
        }
    unit = found.unit or describe(metric)[0]
    notes = [note for note in found.notes if note]
    told_all = {"metric": metric, "unit": unit, "method": METHOD, "rows": list(rows.values()), "notes": notes}
    return {name: value for name, value in told_all.items() if value}


def _is_of(run: Run, benchmark: str | None) -> bool:
    return benchmark is None or (run.name or "").endswith(f": {benchmark}")


def first_of(asked: SweepAsked) -> str | None:
    """The name of the benchmark that decides, where there are several."""
    return asked.benchmarks[0].name if len(asked.benchmarks) > 1 else None


def runs_of(db: Session, trials: Sequence[Any], metric: str, *, by_trial: bool = False) -> dict[str, Run]:
    """The benchmarks of the trials, by id. Each is named after its trial, so that those of one are repeats.

    Those of trials that were told are named as anybody liked: `by_trial` keeps those of two trials apart, and takes a
    baseline from among them where no trial is said to be it.
    """
    numbers = {int(one[1:]): trial for trial in trials for one in trial.benchmarks}
    if not numbers:
        return {}
    rows = db.exec(select(Benchmark).where(col(Benchmark.id).in_(list(numbers))).order_by(col(Benchmark.id))).all()
    found = db.exec(
        select(BenchmarkMetric).where(
            col(BenchmarkMetric.benchmark_id).in_(list(numbers)), col(BenchmarkMetric.name).in_([metric, FAILED])
        )
    ).all()
    metrics: dict[int, dict[str, Metric]] = {}
    for one in found:
        told = Metric(one.name, Decimal(one.text), one.unit, one.better)  # type: ignore[arg-type]
        metrics.setdefault(one.benchmark_id, {})[one.name] = told
    based, flagged = False, not by_trial or any(trial.baseline for trial in trials)
    runs: dict[str, Run] = {}
    for row in rows:
        trial, own = numbers[row.id or 0], metrics.get(row.id or 0, {})
        base = bool(trial.baseline if flagged else row.baseline) and not based and metric in own
        based = based or base
        runs[f"B{row.id}"] = Run(
            id=f"B{row.id}", metrics=own, baseline=base,
            name=f"{repeated(row.name)} ({trial.id})" if by_trial else row.name, comparable=row.comparable,
            config=row.config, workload=row.workload, launch=f"L{row.launch_id}" if row.launch_id else None,
            note=row.note, marks=marks_of(row.marks or (), own[FAILED].value if FAILED in own else None),
        )  # fmt: skip
    return runs


# --- early stop ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """A trial's values of the metric that decides, in order."""

    trial: int
    values: Sequence[float]
    whole: bool
    """Whether it was measured to its end."""

    @property
    def mean(self) -> float:
        return fmean(self.values)


def values_of(db: Session, trials: Sequence[Trial], metric: str, first: str | None) -> list[Measured]:
    runs = runs_of(db, trials, metric)
    found = []
    for trial in trials:
        own = [runs[one] for one in trial.benchmarks if one in runs]
        values = [float(run.metrics[metric].value) for run in own if metric in run.metrics and _is_of(run, first)]
        if values and trial.state in _MEASURED:
            found.append(Measured(trial.id or 0, values, trial.state == "done"))
    return found


def cannot_win(own: Measured, others: Sequence[Measured], rule: EarlyStopIn, higher: bool) -> str | None:
    """Why a trial need not be measured any further: the best that its mean may be is below the least of the best one.

    Its mean is taken to be off by the margin of the rule, or by three times the spread that whole trials have shown,
    whichever is more; the best trial counts with the near end of its own 95 % interval.
    """
    whole = [one for one in others if one.whole and one.trial != own.trial]
    if len(own.values) < rule.after or not whole:
        return None
    best = max(whole, key=lambda one: one.mean if higher else -one.mean)
    interval = mean_interval(sample(list(best.values)))
    spread = _spread(whole)
    margin = max(rule.margin_percent / 100, 3 * spread)
    near = best.mean if interval is None else interval[0 if higher else 1]
    if interval is None:
        near *= 1 - margin if higher else 1 + margin
    bound = own.mean * (1 + margin if higher else 1 - margin)
    if (bound >= near) if higher else (bound <= near):
        return None
    word, side = ("at most", "at least") if higher else ("at least", "at most")
    return (
        f"it cannot win: {_short(own.mean)} after {len(own.values)} of its runs, {word} {_short(bound)} with a margin "
        f"of {margin * 100:.1f} %; the best has {side} {_short(near)}"
    )


def _spread(whole: Sequence[Measured]) -> float:
    """The relative standard deviation within trials, pooled."""
    squares, freedom = 0.0, 0
    for one in whole:
        if len(one.values) > 1 and one.mean:
            squares += sum((value / one.mean - 1) ** 2 for value in one.values)
            freedom += len(one.values) - 1
    return math.sqrt(squares / freedom) if freedom else 0.0


def _short(value: float) -> str:
    return f"{value:.4g}"


def higher_is_better(metric: str) -> bool:
    return describe(metric)[1] != "lower"


def best_row(result: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    return next((row for row in (result or {}).get("rows", ()) if row.get("best")), None)
