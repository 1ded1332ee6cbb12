"""Runs side by side: each configuration's value, its difference to the baseline, and which is best."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import Any

from sitrepd.benchmarks.labels import config_label, distinguishing_keys
from sitrepd.benchmarks.metrics import Better, Metric, decimals, describe, number_text, percent_text, rounded

BEST_METRIC = "output_throughput"
_MEAN_DECIMALS = 4
_ATOMS = frozenset((str, int, float, bool, type(None)))
_REPEAT = re.compile(r"[\s,;:–-]*\(?(?:(?:run|repeat|rep|trial|attempt)\s*#?\d+|#\d+)\)?$", re.IGNORECASE)


@dataclass(frozen=True)
class Run:
    """One benchmark as the comparison sees it; `id` and `launch` are public ids."""

    id: str
    metrics: Mapping[str, Metric]
    name: str | None = None
    baseline: bool = False
    comparable: bool = True
    superseded: bool = False
    config: Mapping[str, Any] = field(default_factory=dict)
    workload: Mapping[str, Any] = field(default_factory=dict)
    launch: str | None = None
    note: str | None = None


@dataclass(frozen=True)
class Row:
    """One configuration: a run, or the repeats of it, whose `value` is then their mean.

    `text` is the value as told, `texts` those of the repeats; `difference` such as "+5.9 %", None where there is none
    to tell; `why` says why the row is not compared with the baseline.
    """

    ids: tuple[str, ...]
    launches: tuple[str, ...]
    label: str
    text: str
    texts: tuple[str, ...]
    value: Decimal
    unit: str | None
    comparable: bool = True
    superseded: bool = False
    baseline: bool = False
    best: bool = False
    difference: str | None = None
    why: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """What is to be said on the row's own line besides its figures."""
        runs = len(self.ids)
        told = {
            "baseline": self.baseline,
            "best": self.best,
            "one run": self.best and runs == 1,
            f"mean of {runs} runs": runs > 1,
            "not comparable": not self.comparable,
            "superseded": self.superseded,
        }
        return tuple(word for word, holds in told.items() if holds)


@dataclass(frozen=True)
class Comparison:
    """The rows in the order of their first runs; `notes` say what keeps it from being complete."""

    metric: str
    unit: str | None
    better: Better | None
    rows: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def baseline(self) -> Row | None:
        """The row that the others are compared with."""
        return next((row for row in self.rows if row.baseline), None)

    @property
    def best(self) -> tuple[Row, ...]:
        """The best rows, several where their values are equal."""
        return tuple(row for row in self.rows if row.best)


@dataclass
class _Group:
    """The repeats of one configuration under one workload."""

    runs: list[Run]
    metrics: list[Metric]
    unit: str | None
    workload: Hashable
    label: str = ""

    @property
    def counts(self) -> bool:
        return self.runs[0].comparable and not self.runs[0].superseded

    @cached_property
    def mean(self) -> Decimal:
        return sum((metric.value for metric in self.metrics), Decimal(0)) / len(self.metrics)


def compare(runs: Sequence[Run], best_metric: str = BEST_METRIC) -> Comparison:
    """Compares the runs by one metric.

    Best is the best value in the metric's better direction among the comparable runs of the baseline's workload, and
    without a baseline, of their workload if there is but one. Repeats are runs of the same configuration, workload and
    name (but for "run 2", "#2"), and count with their mean.
    """
    measured = [run for run in runs if best_metric in run.metrics]
    groups = _groups(measured, best_metric)
    _label(groups)
    baseline, notes = _baseline(runs, groups, best_metric)
    better = _better(baseline, measured, best_metric)
    rows = [_row(group, baseline) for group in groups]
    best, why_none = _best(groups, baseline, better, best_metric)
    rows = [replace(row, best=group in best) for row, group in zip(rows, groups, strict=True)]
    absent = [run.id for run in runs if best_metric not in run.metrics]
    notes += why_none + ([f"Without {best_metric}: {', '.join(absent)}."] if absent else [])
    unit = baseline.unit if baseline else next((group.unit for group in groups if group.unit), None)
    return Comparison(best_metric, unit, better, tuple(rows), tuple(notes))


def _groups(runs: Sequence[Run], name: str) -> list[_Group]:
    groups: dict[tuple[object, ...], _Group] = {}
    for run in runs:
        metric = run.metrics[name]
        unit = metric.unit or describe(name)[0]
        workload = _frozen(dict(run.workload))
        told = _REPEAT.sub("", run.name or "").casefold()
        one = run.id if not run.config and not told else None  # nothing says what it is a repeat of
        key = (_frozen(dict(run.config)), workload, told, one, unit, run.comparable, run.superseded)
        group = groups.setdefault(key, _Group([], [], unit, workload))
        group.runs.append(run)
        group.metrics.append(metric)
    return list(groups.values())


def _label(groups: Sequence[_Group]) -> None:
    """Names each group as told, otherwise by the settings in which it differs from the others."""
    keys = distinguishing_keys([group.runs[0].config for group in groups])
    for group in groups:
        first = group.runs[0]
        told = {run.name for run in group.runs}
        name = first.name if len(told) == 1 else _REPEAT.sub("", first.name or "")
        group.label = name or config_label(first.config, keys) or config_label(first.config) or first.id


def _baseline(runs: Sequence[Run], groups: Sequence[_Group], name: str) -> tuple[_Group | None, list[str]]:
    """The group of the last run that is marked as the baseline and counts, and what is to be said of it."""
    marked = [run for run in runs if run.baseline]
    usable = [group for group in groups if group.counts and any(run.baseline for run in group.runs)]
    if not runs:
        return None, []
    if not marked:
        return None, ["No run is marked as the baseline, so no differences are given."]
    if not usable:
        ids = ", ".join(run.id for run in marked)
        why = f"has no {name}, is superseded or is not comparable"
        return None, [f"The baseline {ids} {why}, so no differences are given."]
    chosen = max(usable, key=lambda group: max(runs.index(run) for run in group.runs if run.baseline))
    if len(usable) == 1:
        return chosen, []
    ids = ", ".join(run.id for run in marked)
    return chosen, [f"Several runs are marked as the baseline: {ids}. The last, {chosen.label}, is taken."]


def _better(baseline: _Group | None, runs: Sequence[Run], name: str) -> Better | None:
    told = [*(baseline.metrics if baseline else []), *(run.metrics[name] for run in runs)]
    return next((metric.better for metric in told if metric.better), None) or describe(name)[1]


def _best(
    groups: Sequence[_Group], baseline: _Group | None, better: Better | None, name: str
) -> tuple[list[_Group], list[str]]:
    candidates = [g for g in groups if g.counts and (baseline is None or _why_not(g, baseline) is None)]
    if not candidates:
        return [], []
    if better is None:
        return [], [f"Whether more or less {name} is better was not told, so none is named best."]
    if baseline is None and len({(group.workload, group.unit) for group in candidates}) > 1:
        return [], ["The runs have different workloads or units, so none is named best."]
    top = (max if better == "higher" else min)(group.mean for group in candidates)
    return [group for group in candidates if group.mean == top], []


def _row(group: _Group, baseline: _Group | None) -> Row:
    texts = tuple(number_text(metric.value) for metric in group.metrics)
    return Row(
        ids=tuple(run.id for run in group.runs),
        launches=tuple(dict.fromkeys(run.launch for run in group.runs if run.launch)),
        label=group.label,
        text=texts[0] if len(texts) == 1 else _mean_text(group),
        texts=texts,
        value=group.mean,
        unit=group.unit,
        comparable=group.runs[0].comparable,
        superseded=group.runs[0].superseded,
        baseline=group is baseline,
        difference=_difference(group, baseline),
        why=_why_not(group, baseline) if baseline else None,
        notes=tuple(dict.fromkeys(run.note for run in group.runs if run.note)),
    )


def _difference(group: _Group, baseline: _Group | None) -> str | None:
    if baseline is None or group is baseline or not group.runs[0].comparable or _why_not(group, baseline):
        return None
    return percent_text((group.mean / baseline.mean - 1) * 100)


def _why_not(group: _Group, baseline: _Group) -> str | None:
    if group.workload != baseline.workload:
        if () in (group.workload, baseline.workload):
            whose = "its workload" if group.workload == () else "the baseline's workload"
            return f"{whose} is not recorded"
        return "another workload than the baseline"
    if group.unit != baseline.unit and group.unit and baseline.unit:
        return f"in {group.unit}, the baseline in {baseline.unit}"
    return "the baseline is 0" if group is not baseline and not baseline.mean else None


def _mean_text(group: _Group) -> str:
    places = max(decimals(metric.value) for metric in group.metrics)
    return number_text(rounded(group.mean, min(places, _MEAN_DECIMALS)))


def _frozen(value: Any) -> Hashable:
    """Equal for the same settings: in any order, and with 4, 4.0 and Decimal("4") alike."""
    if isinstance(value, dict):
        return tuple((key, value[key] if type(value[key]) in _ATOMS else _frozen(value[key])) for key in sorted(value))
    if isinstance(value, list | tuple):
        return tuple(_frozen(item) for item in value)
    return float(value) if isinstance(value, Decimal) else value
