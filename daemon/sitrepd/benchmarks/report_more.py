"""What profiles, training runs and published results say in a checkpoint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from decimal import Decimal
from typing import Any

from sitrepd import reporting as r
from sitrepd.benchmarks.metrics import Metric
from sitrepd.benchmarks.models import ProfilePhaseRow, ReferenceMetric, TrainingBatch
from sitrepd.benchmarks.trainings import batches
from sitrepd.benchmarks.trainings.batches import Batch
from sitrepd.decimals import number_text
from sitrepd.sections import Report, Section

_LATEST = 50
_POINTS = 12
_GROUP = 5
_DIFFERENCES = 5


def more_sections(report: Report) -> list[Section]:
    return [_profiles(report), _trainings(report), _references(report)]


def _profiles(report: Report) -> Section:
    columns = ("id", "launch_id", "benchmark_id", "name", "tool", "note")
    found = r.rows(report, "profile", columns, limit=_LATEST)
    names = ("name", "group", "share", "calls", "total_ms", "mean_ms")
    phases = r.children(report, ProfilePhaseRow, "profile_id", [row.id for row in found], names)
    items = [profile_item(row, phases.get(row.id, ())) for row in found]
    return _section(report, "profile", "profiles", "Profiles", 90, 65, items, "sitrep profile list")


def profile_item(row: Any, phases: Sequence[Any]) -> dict[str, Any]:
    """Of a group the first phases, which are the largest of a trace; `more` counts the others."""
    of = r.public("L", row.launch_id) or r.public("B", row.benchmark_id)
    seen: Counter[str | None] = Counter()
    told = []
    for one in phases:
        seen[one.group] += 1
        if one.group is None or seen[one.group] <= _GROUP:
            figures = r.present(share=_tenth(one.share), calls=one.calls, total_ms=one.total_ms, mean_ms=one.mean_ms)
            told.append({"name": one.name} | r.present(group=one.group) | figures)
    return {"id": f"P{row.id}", "ids": [f"P{row.id}"], "phases": told} | r.present(
        of=of, name=row.name, tool=row.tool, more=len(phases) - len(told) or None, note=row.note
    )


def _tenth(share: str | None) -> str | None:
    return None if share is None else f"{float(share):.1f}"


def _trainings(report: Report) -> Section:
    found = r.rows(report, "training", ("id", "name", "model", "model_id", "data", "note"), limit=_LATEST)
    columns = ("steps", "epochs", "metrics", "units")
    told = r.children(report, TrainingBatch, "training_id", [row.id for row in found], columns)
    models = r.names_of(report, "model", (row.model_id for row in found))
    items = [training_item(row, told.get(row.id, ()), models) for row in found]
    return _section(report, "training", "training", "Training", 100, 60, items, "sitrep training list")


def training_item(row: Any, told: Sequence[Batch], models: Mapping[int, dict[str, Any]]) -> dict[str, Any]:
    """The last points; `earlier_points` counts those before them."""
    points = [
        r.present(epoch=one.epoch, step=one.step)
        | {"metrics": [r.present(name=v.name, value=v.text, unit=v.unit, better=v.better) for v in one.values]}
        for one in batches.last(told, _POINTS)
    ]
    return {"id": f"T{row.id}", "ids": [f"T{row.id}"], "points": points} | r.present(
        name=row.name,
        model=models.get(row.model_id) or row.model,
        earlier_points=max(0, batches.count(told) - _POINTS) or None,
        best=_best(told),
        data=row.data,
        note=row.note,
    )


def _best(told: Sequence[Batch]) -> dict[str, Any] | None:
    """The best point by the metric that matters most, of several."""
    if not told:
        return None
    from sitrepd.benchmarks.trainings.best import Place, best, preferred

    name = preferred(batches.measured(told))
    if name is None:
        return None
    places = []
    for point in batches.extremes(told, name):
        value = point.values[0]
        measured = {name: Metric(name, Decimal(value.text), value.unit, value.better)}
        places.append(Place(None if point.epoch is None else Decimal(point.epoch), point.step, measured))
    found = best(places, name)
    if found is None:
        return None
    figures = r.present(name=found.metric.name, value=number_text(found.metric.value), unit=found.metric.unit)
    return figures | r.present(epoch=_number(found.place.epoch), step=found.place.step)


def _number(value: Decimal | None) -> str | None:
    return None if value is None else number_text(value)


def _references(report: Report) -> Section:
    columns = ("id", "name", "source", "model", "hardware", "config", "workload", "note")
    found = r.rows(report, "reference", columns, limit=_LATEST)
    numbers = [row.id for row in found]
    metrics = r.children(report, ReferenceMetric, "reference_id", numbers, ("name", "text", "unit", "better"))
    beside = _beside(report, [number for number in numbers if number in metrics])
    items = [reference_item(row, metrics.get(row.id, ())) | beside.get(row.id, {}) for row in reversed(found)]
    return _section(report, "reference", "references", "References", 140, 50, items, "sitrep reference list")


def _beside(report: Report, numbers: Sequence[int]) -> dict[int, dict[str, Any]]:
    """One's own figures beside the published ones, and the first settings that differ, by the reference's number."""
    if not numbers:
        return {}
    from sitrepd.benchmarks.published import references_beside

    found = {}
    for one in references_beside(report.db, report.registry, report.session_id, numbers):
        sides = [r.present(**asdict(side)) for side in one.sides]
        more = len(one.differs) - _DIFFERENCES
        differs = [*one.differs[:_DIFFERENCES], *([f"{more} more"] if more > 0 else [])]
        found[int(one.reference[1:])] = r.present(beside=sides, differs=differs, unknown=len(one.unknown) or None)
    return found


def reference_item(row: Any, metrics: Sequence[Any]) -> dict[str, Any]:
    told = [r.measure(one) for one in metrics]
    return {"id": f"R{row.id}", "ids": [f"R{row.id}"], "name": row.name} | r.present(
        source=row.source,
        metrics=told,
        model=row.model,
        hardware=row.hardware,
        settings=[r.setting(name, value) for name, value in (row.config or {}).items()],
        workload=[r.setting(name, value) for name, value in (row.workload or {}).items()],
        note=row.note,
    )


def _section(
    report: Report, word: str, name: str, title: str, order: int, priority: int, items: list[dict[str, Any]], more: str
) -> Section:
    earlier = r.count(report, word) - len(items) if len(items) == _LATEST else 0
    data = r.present(earlier=earlier or None)
    return Section(name=name, title=title, order=order, priority=priority, items=items, data=data, more=more)
