"""Which of one's own results a published one is put beside: runs of the session that count, and training runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any

from sqlmodel import Session, col, select

from sitrepd import facts
from sitrepd.benchmarks.labels import config_label
from sitrepd.benchmarks.marks import failures
from sitrepd.benchmarks.metrics import Metric, describe
from sitrepd.benchmarks.models import Benchmark, BenchmarkMetric, Reference
from sitrepd.benchmarks.references import ALIKE, Beside, Own, Published, beside
from sitrepd.benchmarks.trainings.best import Place, best, places
from sitrepd.slices import Registry

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
    """The best run by each metric, of those that are comparable and that nothing speaks against."""
    names = wanted.union(*(alike for alike in ALIKE if alike & wanted))
    chosen: dict[str, tuple[int, Decimal]] = {}
    for number, name, text, better in db.execute(_values(db, session_id, names)):
        value = Decimal(text)
        score = -value if (better or describe(name)[1]) == "lower" else value
        if name not in chosen or score > chosen[name][1]:
            chosen[name] = (number, score)
    numbers = sorted({number for number, _ in chosen.values()})
    rows = db.exec(select(Benchmark).where(col(Benchmark.id).in_(numbers)).order_by(col(Benchmark.id))).all()
    for told in facts.publish(db, registry, registry.by_word["benchmark"], rows) if rows else ():
        metrics = {name: Metric(name, one.value, one.unit, one.better) for name, one in told.metrics.items()}
        label = told.name or config_label(told.config) or told.id
        yield Own(told.id, label, metrics, told.config, told.workload, *_about(db, registry, told.launch))


def _values(db: Session, session_id: int | None, names: Iterable[str]) -> Any:
    """(number, metric, text, better) of the runs that count."""
    mine = col(Benchmark.session_id) == session_id
    marked = db.exec(select(Benchmark.id, Benchmark.marks).where(mine, col(Benchmark.marks).is_not(None))).all()
    aside = {number for number, marks in marked if marks} | set(failures(db, session_id))
    query = select(BenchmarkMetric.benchmark_id, BenchmarkMetric.name, BenchmarkMetric.text, BenchmarkMetric.better)
    return query.join(Benchmark, col(Benchmark.id) == BenchmarkMetric.benchmark_id).where(
        mine, col(Benchmark.comparable), col(BenchmarkMetric.name).in_(list(names)),
        col(Benchmark.id).not_in(aside),
    )  # fmt: skip


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
