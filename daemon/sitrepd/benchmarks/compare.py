"""Runs side by side: each configuration's value, its difference to the baseline, and which is best."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from sitrepd.benchmarks.groups import Group, Groups, Run
from sitrepd.benchmarks.metrics import Better, decimals, describe, percent_text, rounded
from sitrepd.decimals import number_text

BEST_METRIC = "output_throughput"
_MEAN_DECIMALS = 4
_NAMED = 40
BEST_SHOWN = 3

__all__ = ("BEST_METRIC", "Comparison", "Row", "Run", "compare", "compared")


@dataclass(frozen=True)
class Row:
    """One configuration: the run of it, or its repeats, whose `value` is then their mean.

    `text` is the value as told, `texts` those of the repeats; `difference` such as "+5.9 %", None where there is none
    to tell; `why` says why the row is not compared with the baseline.
    """

    runs: tuple[Run, ...]
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
    marked: bool = False
    difference: str | None = None
    why: str | None = None
    notes: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()

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
            "marked": self.marked,
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
    earlier: int = 0
    """Runs of configurations that have no row, where rows are bounded."""
    equal: tuple[str, ...] = ()
    """Runs of the best configurations after the first few, where rows are bounded."""

    @property
    def baseline(self) -> Row | None:
        """The row that the others are compared with."""
        return next((row for row in self.rows if row.baseline), None)

    @property
    def best(self) -> tuple[Row, ...]:
        """The best rows, several where their values are equal."""
        return tuple(row for row in self.rows if row.best)


def compare(runs: Iterable[Run], best_metric: str = BEST_METRIC) -> Comparison:
    """Compares the runs by one metric.

    Best is the best value in the metric's better direction among the comparable runs of the baseline's workload, and
    without a baseline, of their workload if there is but one. Repeats are runs of the same configuration, workload and
    name (but for "run 2", "#2"), and count with their mean. Runs with marks have a row of their own, and are best or
    the baseline only where all that would be have some.
    """
    groups = Groups(best_metric)
    for run in runs:
        groups.add(run)
    return compared(groups)


def compared(groups: Groups, most: int | None = None) -> Comparison:
    """The comparison of grouped runs; with `most`, baseline, first best ones, and so many of the latest have rows."""
    every = list(groups)
    baseline, notes = _baseline(groups)
    better = _better(baseline, groups)
    best, why_none = _best(every, baseline, better, groups.metric)
    shown = every if most is None else _shown(every, most, [*best[:BEST_SHOWN], *([baseline] if baseline else [])])
    notes += why_none + ([f"Without {groups.metric}: {_listed(groups.absent)}."] if groups.absent else [])
    unit = baseline.unit if baseline else next((group.unit for group in every if group.unit), None)
    first = set(map(id, best))
    rows = tuple(_row_of(group, groups.label(group), baseline, id(group) in first) for group in shown)
    earlier = len(groups.by_id) - len(groups.absent) - sum(len(group.runs) for group in shown)
    equal = tuple(run.id for group in best[BEST_SHOWN:] for run in group.runs) if most is not None else ()
    return Comparison(groups.metric, unit, better, rows, tuple(notes), earlier, equal)


def _shown(every: list[Group], most: int, besides: list[Group]) -> list[Group]:
    if len(every) <= most:
        return every
    kept = {id(group) for group in (*every[-most:], *besides)}
    return [group for group in every if id(group) in kept]


def _listed(ids: list[str]) -> str:
    more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
    return ", ".join(ids[:_NAMED]) + more


def _baseline(groups: Groups) -> tuple[Group | None, list[str]]:
    """The group of the last run that is marked as the baseline and counts, and what is to be said of it."""
    if not groups.by_id:
        return None, []
    if not groups.marked:
        return None, ["No run is marked as the baseline, so no differences are given."]
    ids = _listed([run.id for run in groups.marked])
    usable = [group for group in groups if group.marked_at >= 0 and group.counts]
    if not usable:
        why = f"has no {groups.metric}, is superseded or is not comparable"
        return None, [f"The baseline {ids} {why}, so no differences are given."]
    clean = [group for group in usable if not group.marked] or usable
    chosen = max(clean, key=lambda group: group.marked_at)
    if len(clean) == 1:
        return chosen, []
    return chosen, [f"Several runs are marked as the baseline: {ids}. The last, {groups.label(chosen)}, is taken."]


def _better(baseline: Group | None, groups: Groups) -> Better | None:
    told = next((metric.better for metric in baseline.metrics if metric.better), None) if baseline else None
    return told or groups.told_better or describe(groups.metric)[1]


def _best(
    groups: list[Group], baseline: Group | None, better: Better | None, name: str
) -> tuple[list[Group], list[str]]:
    candidates = [g for g in groups if g.counts and (baseline is None or _why_not(g, baseline) is None)]
    if not candidates:
        return [], []
    if better is None:
        return [], [f"Whether more or less {name} is better was not told, so none is named best."]
    if baseline is None and len({(group.workload, group.unit) for group in candidates}) > 1:
        return [], ["The runs have different workloads or units, so none is named best."]
    candidates = [group for group in candidates if not group.marked] or candidates
    means = [group.mean for group in candidates]
    top = max(means) if better == "higher" else min(means)
    return [group for group, mean in zip(candidates, means, strict=True) if mean == top], []


def _row_of(group: Group, label: str, baseline: Group | None, best: bool) -> Row:
    """The row that the group has already, unless what it says besides the group's runs is another now."""
    of = (label, best, baseline, len(baseline.runs) if baseline else 0)
    if group.row is None or group.row[0] != of:
        group.row = (of, _row(group, label, baseline, best))
    row: Row = group.row[1]
    return row


def _row(group: Group, label: str, baseline: Group | None, best: bool) -> Row:
    texts = tuple(number_text(metric.value) for metric in group.metrics)
    return Row(
        runs=tuple(group.runs),
        ids=tuple(run.id for run in group.runs),
        launches=tuple(dict.fromkeys(run.launch for run in group.runs if run.launch)),
        label=label,
        text=texts[0] if len(texts) == 1 else _mean_text(group),
        texts=texts,
        value=group.mean,
        unit=group.unit,
        comparable=group.runs[0].comparable,
        superseded=group.runs[0].superseded,
        baseline=group is baseline,
        best=best,
        marked=group.marked,
        difference=_difference(group, baseline),
        why=_why_not(group, baseline) if baseline else None,
        notes=tuple(dict.fromkeys(run.note for run in group.runs if run.note)),
        marks=tuple(f"{run.id}: {mark}" for run in group.runs for mark in run.marks),
    )


def _difference(group: Group, baseline: Group | None) -> str | None:
    if baseline is None or group is baseline or not group.runs[0].comparable or _why_not(group, baseline):
        return None
    return percent_text((group.mean / baseline.mean - 1) * 100)


def _why_not(group: Group, baseline: Group) -> str | None:
    if group.workload is not baseline.workload and group.workload != baseline.workload:
        if () in (group.workload, baseline.workload):
            whose = "its workload" if group.workload == () else "the baseline's workload"
            return f"{whose} is not recorded"
        return "another workload than the baseline"
    if group.unit != baseline.unit and group.unit and baseline.unit:
        return f"in {group.unit}, the baseline in {baseline.unit}"
    return "the baseline is 0" if group is not baseline and not baseline.mean else None


def _mean_text(group: Group) -> str:
    places = max(decimals(metric.value) for metric in group.metrics)
    most = max(_MEAN_DECIMALS, _MEAN_DECIMALS - 1 - group.mean.adjusted())
    return number_text(rounded(group.mean, min(places, most)))
