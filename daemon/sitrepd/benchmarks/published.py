"""Which of one's own results a published one is put beside: runs of the session that count, and training runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

from sqlmodel import Session, col, select

from sitrepd import facts
from sitrepd.benchmarks.compare import Row, compare
from sitrepd.benchmarks.metrics import Metric
from sitrepd.benchmarks.models import Reference
from sitrepd.benchmarks.references import ALIKE, Beside, Own, Published, beside
from sitrepd.benchmarks.runs import stored_runs
from sitrepd.benchmarks.trainings.best import Place, best, places
from sitrepd.slices import Registry

_MOST = 2000
_MOST_TRAININGS = 20


def references_beside(
    db: Session, registry: Registry, session_id: int | None, only: Sequence[int] | None = None
) -> list[Beside]:
    """Of a session's references (of these, by their numbers), oldest first."""
    mine = select(Reference).where(col(Reference.session_id) == session_id).order_by(col(Reference.id))
    if only is not None:
        mine = mine.where(col(Reference.id).in_(only))
    rows = db.exec(mine).all()
    told = facts.publish(db, registry, registry.by_word["reference"], rows) if rows else []
    wanted = {name for one in told for name in one.metrics}
    own = [*_runs(db, registry, session_id, wanted), *_trainings(db, registry, session_id)] if wanted else []
    return [beside(_published(one), own) for one in told]


def _published(told: Any) -> Published:
    metrics = {name: Metric(name, one.value, one.unit, one.better) for name, one in told.metrics.items()}
    return Published(
        told.id, told.name, metrics, told.config, told.workload, told.model, told.hardware, told.source
    )  # fmt: skip


def _runs(db: Session, registry: Registry, session_id: int | None, wanted: set[str]) -> Iterator[Own]:
    """Configurations with the mean of their repeats, of runs that are comparable and that nothing speaks against."""
    names = wanted.union(*(alike for alike in ALIKE if alike & wanted))
    runs = stored_runs(db, session_id, names)[-_MOST:]
    found: dict[str, Row] = {}
    metrics: dict[str, dict[str, Metric]] = {}
    for name in names:
        for row in compare(runs, name).rows:
            if row.comparable and not row.superseded and not row.marked:
                found.setdefault(row.ids[0], row)
                better = row.runs[0].metrics[name].better
                metrics.setdefault(row.ids[0], {})[name] = Metric(name, Decimal(row.text), row.unit, better)
    for first, row in found.items():
        run, more = row.runs[0], len(row.ids) - 1
        label = f"{row.label}, mean of {more + 1} runs" if more else row.label
        about = _about(db, registry, next(iter(row.launches), None))
        yield Own(first, label, metrics[first], run.config, run.workload, *about)


def _about(db: Session, registry: Registry, launch: str | None) -> tuple[str | None, str | None, dict[str, Any]]:
    """Model and hardware of a launch, and the settings that it was started with."""
    row: Any = db.get(registry.by_word["launch"].table, int(launch[1:])) if launch else None
    if row is None:
        return None, None, {}
    settings = row.settings or {}
    card: Any = db.get(registry.by_word["model"].table, row.model_id) if row.model_id else None
    host: Any = db.get(registry.by_word["host"].table, row.host_id) if row.host_id else None
    model = (card.name or card.path) if card is not None else row.model or settings.get("model_path")
    return model, _hardware(host), settings


def _hardware(host: Any) -> str | None:
    counted = Counter(gpu.get("name") or "unknown GPU" for gpu in (host.gpus if host is not None else None) or ())
    return ", ".join(f"{count} × {name}" for name, count in counted.items()) or None


def _trainings(db: Session, registry: Registry, session_id: int | None) -> Iterator[Own]:
    """Of each training run the best value of every metric."""
    noun = registry.by_word["training"]
    table: Any = noun.table
    query = select(table).where(table.session_id == session_id).order_by(table.id.desc())
    rows: Sequence[Any] = db.exec(query.limit(_MOST_TRAININGS)).all()
    for told in facts.publish(db, registry, noun, rows) if rows else ():
        points = places(told.points)
        names = dict.fromkeys(name for point in points for name in point.metrics)
        metrics = {name: found for name in names if (found := _value(points, name)) is not None}
        if metrics:
            yield Own(told.id, told.name or told.id, metrics, model=told.model)


def _value(points: Sequence[Place], name: str) -> Metric | None:
    top = best(points, name)
    return top.metric if top is not None else next(
        (point.metrics[name] for point in reversed(points) if name in point.metrics), None
    )  # fmt: skip
