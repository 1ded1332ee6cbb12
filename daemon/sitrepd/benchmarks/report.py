"""What benchmarks say in a checkpoint: the best configuration and the comparison."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple

from sqlmodel import col

from sitrepd import reporting as r
from sitrepd.benchmarks.board import board
from sitrepd.benchmarks.compare import BEST_METRIC, BEST_SHOWN, Comparison, Row, compared
from sitrepd.benchmarks.groups import Groups, Run
from sitrepd.benchmarks.models import BenchmarkMetric
from sitrepd.benchmarks.report_more import more_sections
from sitrepd.benchmarks.running.report import now_sections
from sitrepd.benchmarks.runs import stored_samples
from sitrepd.benchmarks.verdicts import Samples, sureness, verdicts
from sitrepd.sections import Report, Section

_AFTER_TABLE = 5_000
_ROWS = 200
_DETAILS = 20
_AT_ONCE = 500
_LIST = "sitrep bench list"
_COMMAND = ("id", "command", "argv", "env", "cwd", "process")


def report(report: Report) -> list[Section]:
    """Sections `best`, `benchmarks`, `profiles`, `training` and `references`."""
    with board(report, report.session.best_metric or BEST_METRIC) as told:
        if told.said is None or told.told_since:
            told.said = _said(report, told.groups, told.said)
            told.told_since = False
        said = told.said
    best = best_section(said.comparison, _commands(report, said.comparison), said.sure)
    table = said.table.model_copy(update={"items": [dict(item) for item in said.table.items]})
    return [best, table, *now_sections(report), *more_sections(report)]


class _Said(NamedTuple):
    """What follows from the runs alone; the items of the table and how sure each is by the first run of their row."""

    comparison: Comparison
    sure: Mapping[str, str]
    items: Mapping[str, _Item]
    table: Section


class _Item(NamedTuple):
    """What the table says of a row without the settings that all rows have; `breaks` says that no table can hold it."""

    row: Row
    shared: tuple[Container[str], Container[str]]
    told: Mapping[str, Any]
    breaks: bool


def _said(report: Report, groups: Groups, before: _Said | None) -> _Said:
    comparison = compared(groups, _ROWS)
    sure = _sure(comparison, stored_samples(report.db, report.session_id, comparison.metric))
    items = table_items(comparison, before.items if before else {})
    runs = detailed(comparison, groups)
    metrics = _metrics(report, [int(run.id[1:]) for run in runs])
    told = [(run, metrics.get(int(run.id[1:]), ())) for run in runs]
    return _Said(comparison, sure, items, table_section(comparison, items, told))


def _sure(comparison: Comparison, samples: Samples) -> dict[str, str]:
    """How sure the difference of the best rows is, by their first run."""
    rows = comparison.best[:BEST_SHOWN]
    pairs = zip(rows, verdicts(comparison, samples, rows), strict=True)
    return {row.ids[0]: told for row, verdict in pairs if (told := sureness(row, verdict))}


def _metrics(report: Report, numbers: Sequence[int], *conditions: Any) -> dict[int, list[Any]]:
    names = ("name", "text", "unit", "better")
    return r.children(report, BenchmarkMetric, "benchmark_id", numbers, names, *conditions)


def _commands(report: Report, comparison: Comparison) -> dict[str, dict[str, Any]]:
    """Command and folder of the launches of the best rows, by their ids."""
    numbers = {int(public_id[1:]) for row in comparison.best[:BEST_SHOWN] for public_id in row.launches[:_AT_ONCE]}
    these = col(r.table_of(report, "launch").id).in_(numbers)
    found = r.rows(report, "launch", _COMMAND, these, everywhere=True) if numbers else ()
    return {
        f"L{row.id}": {"command": r.command_line(row.command, row.argv, row.env), "cwd": row.cwd}
        | r.present(around=r.surroundings(row.command, row.env, row.process))
        for row in found
    }


# --- best --------------------------------------------------------------------------------------------------------


def best_section(
    comparison: Comparison, commands: Mapping[str, Mapping[str, Any]], sure: Mapping[str, str] = MappingProxyType({})
) -> Section:
    """The best rows, each followed by its command, or by the word that none was recorded."""
    items: list[dict[str, Any]] = []
    for place, row in enumerate(comparison.best[:BEST_SHOWN]):
        weight = {"priority": 8} if place else {}
        told = r.present(sure=sure.get(row.ids[0]))
        items.append(_best_item(comparison, row) | told | {"order": 10 * place} | weight)
        items.append(_command_item(row, commands) | {"order": 10 * place + 1} | weight)
    equal = list(comparison.equal)
    if equal:
        items.append({"kind": "equal", "ids": equal[:20], "count": len(equal), "order": 1000})
    if not comparison.best and comparison.rows:
        why = " ".join(comparison.notes)
        items.append({"kind": "none", "ids": [], "metric": comparison.metric, "why": why, "order": 0})
    return Section(name="best", title="Best configuration", order=70, priority=4, pinned=True, items=items, more=_LIST)


def _best_item(comparison: Comparison, row: Row) -> dict[str, Any]:
    against = comparison.baseline
    item = {"kind": "best", "metric": comparison.metric} | r.present(better=comparison.better)
    item |= _figures(row)
    item |= {"settings": _told(row.runs[0].config)} | r.present(workload=_told(row.runs[0].workload))
    if against is not None and against is not row:
        item["baseline_run"] = {"ids": list(against.ids), "label": against.label, "value": against.text}
        item["baseline_run"] |= r.present(unit=against.unit)
    return item


def _command_item(row: Row, commands: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    of = list(row.ids)
    for public_id in row.launches:
        found = commands.get(public_id)
        if found is not None and found["command"] is not None:
            item = {"kind": "command", "ids": [public_id], "what": f"command of {public_id}", "launch": public_id}
            return item | {"of": of, **found}
    return {"kind": "no_command", "ids": [*of, *row.launches], "of": of, "launches": list(row.launches)}


def _figures(row: Row) -> dict[str, Any]:
    return {"ids": list(row.ids), "label": row.label, "value": row.text, "words": list(row.words)} | r.present(
        unit=row.unit,
        difference=row.difference,
        launches=list(row.launches),
        launch_of=_launch_of(row),
        marked=[run.id for run in row.runs if run.baseline],
        times={run.id: r.when(run.at) for run in row.runs if run.at is not None},
        repeats=list(row.texts) if len(row.texts) > 1 else None,
        why=row.why,
        notes=list(row.notes),
        marks=list(row.marks),
    )


def _launch_of(row: Row) -> dict[str, str] | None:
    """Which launch each repeat ran on, where it is neither one for all nor one for each in their order."""
    of = [run.launch for run in row.runs]
    if of == list(row.launches) or len(set(of)) == 1:
        return None
    return {run.id: run.launch for run in row.runs if run.launch is not None}


# --- the table ---------------------------------------------------------------------------------------------------


def table_items(comparison: Comparison, before: Mapping[str, _Item]) -> dict[str, _Item]:
    """What the table says of each row, made anew only where the row or what all have in common is another."""
    shared = tuple(frozenset(_shared(settings)) for settings in _settings(comparison))
    items: dict[str, _Item] = {}
    for row in comparison.rows:
        known = before.get(row.ids[0])
        is_same = known is not None and known.row is row and known.shared == shared
        items[row.ids[0]] = known if known is not None and is_same else _item(row, *shared)
    return items


def _settings(comparison: Comparison) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Configuration and workload of each row."""
    runs = [row.runs[0] for row in comparison.rows]
    return [run.config for run in runs], [run.workload for run in runs]


def _item(row: Row, common: Container[str], work: Container[str]) -> _Item:
    run = row.runs[0]
    told = {"priority": 15 if row.best or row.baseline else 20} | _figures(row)
    told |= r.present(
        settings=_told({name: value for name, value in run.config.items() if name not in common}),
        workload=_told({name: value for name, value in run.workload.items() if name not in work}),
    )
    return _Item(row, (common, work), told, "|" in json.dumps(told))


def table_section(
    comparison: Comparison, rows: Mapping[str, _Item], runs: Sequence[tuple[Run, Sequence[Any]]]
) -> Section:
    """One row a configuration, what all of them share told once, then the other figures and the runs without it."""
    # What a table cannot hold is printed as a list item, which would end the table if it stood in its midst.
    places = (place + (_AFTER_TABLE if one.breaks else 0) for place, one in enumerate(rows.values()))
    items = [{"kind": "row", "order": place, **one.told} for place, one in zip(places, rows.values(), strict=True)]
    items.sort(key=lambda item: item["priority"])
    common, work = map(_shared, _settings(comparison))
    if common or work:
        items.append({"kind": "shared", "ids": [], "settings": _told(common), "workload": _told(work), "order": 10_000})
    items += [{"kind": "note", "ids": [], "text": note, "order": 10_001} for note in comparison.notes]
    timeless = [run.id for row in comparison.rows for run in row.runs if run.at is None]
    if timeless:
        items.append({"kind": "timeless", "ids": timeless, "what": "runs without a time", "order": 10_002})
    items += _details(comparison, runs)
    data: dict[str, Any] = {"metric": comparison.metric}
    data |= r.present(unit=comparison.unit, better=comparison.better, earlier=comparison.earlier or None)
    baseline = comparison.baseline
    if baseline is not None:
        data["baseline"] = list(baseline.ids)
    return Section(name="benchmarks", title="Benchmarks", order=80, priority=20, items=items, data=data, more=_LIST)


def _shared(told: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What several configurations have in common; of a single one nothing is."""
    if len(told) < 2:
        return {}
    seen = Counter((name, repr(value)) for one in told for name, value in one.items())
    return {name: value for name, value in told[0].items() if seen[name, repr(value)] == len(told)}


def _told(settings: Mapping[str, Any]) -> list[str]:
    return [r.setting(name, value) for name, value in settings.items()]


def detailed(comparison: Comparison, groups: Groups) -> list[Run]:
    """The latest runs, baseline and best, newest first, and the latest of those that the table cannot hold."""
    by_id, metric = groups.by_id, comparison.metric
    latest = {run.id for run in islice(reversed(by_id.values()), _DETAILS) if metric in run.metrics}
    weightiest = [*comparison.best[:BEST_SHOWN], *(row for row in comparison.rows if row.baseline)]
    chosen = latest.union(*(row.ids[-_DETAILS:] for row in weightiest))
    newest_first = sorted(chosen, key=lambda one: -int(one[1:]))
    return [by_id[one] for one in (*newest_first, *groups.absent[: -_ROWS - 1 : -1])]


def _details(comparison: Comparison, runs: Iterable[tuple[Run, Sequence[Any]]]) -> Iterable[dict[str, Any]]:
    """Their other figures, tools and files, where there are any to tell."""
    for place, (run, metrics) in enumerate(runs):
        in_table = comparison.metric in run.metrics
        told = [r.measure(one) for one in metrics if not in_table or one.name != comparison.metric]
        if told or not in_table or run.artifact or run.tool:
            yield {"order": 20_000 + place} | _detail(run, in_table, told)


def _detail(run: Run, in_table: bool, metrics: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    item = {"kind": "run", "id": run.id, "ids": [run.id], "in_table": in_table, "metrics": metrics}
    item |= {"priority": 58 if in_table else 22, "comparable": run.comparable}
    item |= r.present(name=run.name, tool=run.tool, launch=run.launch, artifact=run.artifact)
    if run.baseline:
        item["baseline"] = True
    if in_table:
        return item
    return item | r.present(note=run.note, settings=_told(run.config), workload=_told(run.workload))
