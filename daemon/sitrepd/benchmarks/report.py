"""What benchmarks say in a checkpoint: the best configuration and the comparison."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlmodel import col

from sitrepd import reporting as r
from sitrepd.benchmarks.board import Board, Told, board
from sitrepd.benchmarks.compare import BEST_METRIC, BEST_SHOWN, Comparison, Row, compared
from sitrepd.benchmarks.models import BenchmarkMetric
from sitrepd.benchmarks.report_more import more_sections
from sitrepd.sections import Report, Section

_AFTER_TABLE = 5_000
_ROWS = 200
_DETAILS = 20
_AT_ONCE = 500
_LIST = "sitrep bench list"


def report(report: Report) -> list[Section]:
    """Sections `best`, `benchmarks`, `profiles`, `sweeps`, `training` and `references`."""
    with board(report, report.session.best_metric or BEST_METRIC) as told:
        said = told.said = told.said or _said(report, told)
    best = best_section(said.comparison, said.by_id, _commands(report, said.comparison), said.times)
    return [best, said.table.model_copy(), *more_sections(report)]


class _Said(NamedTuple):
    """What follows from the runs alone."""

    comparison: Comparison
    by_id: Mapping[str, Told]
    times: Mapping[str, str]
    table: Section


def _said(report: Report, told: Board) -> _Said:
    comparison = compared(told.groups, _ROWS)
    absent = frozenset(told.groups.absent)
    detailed = detailed_ids(comparison, told.rows, absent)
    by_id = {one: told.rows[one] for one in (*detailed, *(one for row in comparison.rows for one in row.ids))}
    metrics = _metrics(report, [by_id[public_id].id for public_id in detailed])
    times = _times(report, comparison)
    of = {public_id: metrics.get(by_id[public_id].id, ()) for public_id in detailed}
    return _Said(comparison, by_id, times, table_section(comparison, by_id, of, times, absent))


def _times(report: Report, comparison: Comparison) -> dict[str, str]:
    """When the runs that are shown were measured, by their ids; without those of which that was not told."""
    shown = [*comparison.best[:BEST_SHOWN], *comparison.rows]
    numbers = sorted({int(public_id[1:]) for row in shown for public_id in row.ids})
    found = []
    for place in range(0, len(numbers), _AT_ONCE):
        these = col(r.table_of(report, "benchmark").id).in_(numbers[place : place + _AT_ONCE])
        found += r.rows(report, "benchmark", ("id", "at", "observed_at", "imported_from"), these)
    return {f"B{row.id}": told for row in found if (told := r.when(r.told_at(report, row))) is not None}


def _metrics(report: Report, numbers: Sequence[int], *conditions: Any) -> dict[int, list[Any]]:
    names = ("name", "text", "unit", "better")
    return r.children(report, BenchmarkMetric, "benchmark_id", numbers, names, *conditions)


def _commands(report: Report, comparison: Comparison) -> dict[str, dict[str, Any]]:
    """Command and folder of the launches of the best rows, by their ids."""
    numbers = {int(public_id[1:]) for row in comparison.best[:BEST_SHOWN] for public_id in row.launches[:_AT_ONCE]}
    these = col(r.table_of(report, "launch").id).in_(numbers)
    found = r.rows(report, "launch", ("id", "command", "argv", "env", "cwd"), these, everywhere=True) if numbers else ()
    return {f"L{row.id}": {"command": r.command_line(row.command, row.argv, row.env), "cwd": row.cwd} for row in found}


# --- best --------------------------------------------------------------------------------------------------------


def best_section(
    comparison: Comparison, by_id: Mapping[str, Any], commands: Mapping[str, Mapping[str, Any]],
    times: Mapping[str, str],
) -> Section:  # fmt: skip
    """The best rows, each followed by its command, or by the word that none was recorded."""
    items: list[dict[str, Any]] = []
    for place, row in enumerate(comparison.best[:BEST_SHOWN]):
        weight = {"priority": 8} if place else {}
        items.append(_best_item(comparison, row, by_id, times) | {"order": 10 * place} | weight)
        items.append(_command_item(row, commands) | {"order": 10 * place + 1} | weight)
    equal = list(comparison.equal)
    if equal:
        items.append({"kind": "equal", "ids": equal[:20], "count": len(equal), "order": 1000})
    if not comparison.best and comparison.rows:
        why = " ".join(comparison.notes)
        items.append({"kind": "none", "ids": [], "metric": comparison.metric, "why": why, "order": 0})
    return Section(name="best", title="Best configuration", order=70, priority=4, pinned=True, items=items, more=_LIST)


def _best_item(comparison: Comparison, row: Row, by_id: Mapping[str, Any], times: Mapping[str, str]) -> dict[str, Any]:
    against = comparison.baseline
    item = {"kind": "best", "metric": comparison.metric} | r.present(better=comparison.better)
    item |= _figures(row, by_id, times)
    run = by_id[row.ids[0]]
    item |= {"settings": _told(run.config or {})} | r.present(workload=_told(run.workload or {}))
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


def _figures(row: Row, by_id: Mapping[str, Any], times: Mapping[str, str]) -> dict[str, Any]:
    return {"ids": list(row.ids), "label": row.label, "value": row.text, "words": list(row.words)} | r.present(
        unit=row.unit,
        difference=row.difference,
        launches=list(row.launches),
        launch_of=_launch_of(row, by_id),
        marked=[public_id for public_id in row.ids if by_id[public_id].baseline],
        times={public_id: times[public_id] for public_id in row.ids if public_id in times},
        repeats=list(row.texts) if len(row.texts) > 1 else None,
        why=row.why,
        notes=list(row.notes),
    )


def _launch_of(row: Row, by_id: Mapping[str, Any]) -> dict[str, str] | None:
    """Which launch each repeat ran on, where it is neither one for all nor one for each in their order."""
    of = {public_id: r.public("L", by_id[public_id].launch_id) for public_id in row.ids}
    if list(of.values()) == list(row.launches) or len(set(of.values())) == 1:
        return None
    return {public_id: launch for public_id, launch in of.items() if launch is not None}


# --- the table ---------------------------------------------------------------------------------------------------


def table_section(
    comparison: Comparison, by_id: Mapping[str, Any], detailed: Mapping[str, Sequence[Any]], times: Mapping[str, str],
    absent: Container[str],
) -> Section:  # fmt: skip
    """One row a configuration, what all of them share told once, then the other figures and the runs without it."""
    shown = comparison.rows
    runs = [by_id[row.ids[0]] for row in shown]
    configs, workloads = [row.config or {} for row in runs], [row.workload or {} for row in runs]
    common, work = _shared(configs), _shared(workloads)
    items = [
        _table_item(place, row, config, workload, common, work, by_id, times)
        for place, (row, config, workload) in enumerate(zip(shown, configs, workloads, strict=True))
    ]
    items.sort(key=lambda item: item["priority"])
    if common or work:
        items.append({"kind": "shared", "ids": [], "settings": _told(common), "workload": _told(work), "order": 10_000})
    items += [{"kind": "note", "ids": [], "text": note, "order": 10_001} for note in comparison.notes]
    timeless = [public_id for row in shown for public_id in row.ids if public_id not in times]
    if timeless:
        items.append({"kind": "timeless", "ids": timeless, "what": "runs without a time", "order": 10_002})
    items += _details(comparison, by_id, detailed, absent)
    data: dict[str, Any] = {"metric": comparison.metric}
    data |= r.present(unit=comparison.unit, better=comparison.better, earlier=comparison.earlier or None)
    baseline = comparison.baseline
    if baseline is not None:
        data["baseline"] = list(baseline.ids)
    return Section(name="benchmarks", title="Benchmarks", order=80, priority=20, items=items, data=data, more=_LIST)


def _table_item(
    place: int, row: Row, config: Mapping[str, Any], workload: Mapping[str, Any], common: Mapping[str, Any],
    work: Mapping[str, Any], by_id: Mapping[str, Any], times: Mapping[str, str],
) -> dict[str, Any]:  # fmt: skip
    item = {"kind": "row", "order": place, "priority": 15 if row.best or row.baseline else 20}
    item |= _figures(row, by_id, times)
    item |= r.present(
        settings=_told({name: value for name, value in config.items() if name not in common}),
        workload=_told({name: value for name, value in workload.items() if name not in work}),
    )
    # What a table cannot hold is printed as a list item, which would end the table if it stood in its midst.
    return item | ({"order": _AFTER_TABLE + place} if "|" in json.dumps(item) else {})


def _shared(told: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What several configurations have in common; of a single one nothing is."""
    if len(told) < 2:
        return {}
    seen = Counter((name, repr(value)) for one in told for name, value in one.items())
    return {name: value for name, value in told[0].items() if seen[name, repr(value)] == len(told)}


def _told(settings: Mapping[str, Any]) -> list[str]:
    return [r.setting(name, value) for name, value in settings.items()]


def detailed_ids(comparison: Comparison, oldest_first: Iterable[str], absent: Container[str]) -> list[str]:
    """The latest runs, baseline and best, and the latest of those that the table cannot hold."""
    latest = list(oldest_first)[::-1]
    weightiest = [*comparison.best[:BEST_SHOWN], *(row for row in comparison.rows if row.baseline)]
    first = {public_id for row in weightiest for public_id in row.ids[-_DETAILS:]}
    wanted = [one for place, one in enumerate(latest) if one in first or (place < _DETAILS and one not in absent)]
    return wanted + [one for one in latest if one in absent][:_ROWS]


def _details(
    comparison: Comparison, by_id: Mapping[str, Any], detailed: Mapping[str, Sequence[Any]], absent: Container[str]
) -> Iterable[dict[str, Any]]:
    """Their other figures, tools and files, where there are any to tell."""
    for place, (public_id, metrics) in enumerate(detailed.items()):
        row, in_table = by_id[public_id], public_id not in absent
        told = [r.measure(one) for one in metrics if not in_table or one.name != comparison.metric]
        if told or not in_table or row.artifact or row.tool:
            yield {"order": 20_000 + place} | _detail(public_id, row, in_table, told)


def _detail(public_id: str, row: Any, in_table: bool, metrics: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    item = {"kind": "run", "id": public_id, "ids": [public_id], "in_table": in_table, "metrics": metrics}
    item |= {"priority": 58 if in_table else 22, "comparable": row.comparable}
    item |= r.present(name=row.name, tool=row.tool, launch=r.public("L", row.launch_id), artifact=row.artifact)
    if row.baseline:
        item["baseline"] = True
    if in_table:
        return item
    return item | r.present(note=row.note, settings=_told(row.config or {}), workload=_told(row.workload or {}))
