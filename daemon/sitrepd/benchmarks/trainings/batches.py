"""Points of a training run as the store keeps them: those that were told together are one row, each metric a column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import groupby, islice
from typing import Any, NamedTuple, Protocol

from sitrepd.benchmarks.models import TrainingBatch, TrainingPoint
from sitrepd.decimals import number_text
from sitrepd.redact import redact_text
from sitrepd.shapes import Better, Measure

_NOTHING = (None, None)


class Batch(Protocol):
    """The columns of a row, however it was read."""

    @property
    def steps(self) -> Sequence[int | None] | None: ...
    @property
    def epochs(self) -> Sequence[str | None] | None: ...
    @property
    def metrics(self) -> Mapping[str, Sequence[str | None]]: ...
    @property
    def units(self) -> Mapping[str, Sequence[Any]]: ...


class Value(NamedTuple):
    """What was measured, as it was told."""

    name: str
    text: str
    unit: str | None
    better: Better | None


class _Column(NamedTuple):
    name: str
    unit: str | None
    better: Better | None
    texts: Sequence[str | None]


class Point(NamedTuple):
    epoch: str | None
    step: int | None
    values: tuple[Value, ...]


def rows_of(points: Sequence[TrainingPoint]) -> list[TrainingBatch]:
    """Points that follow each other and measured the same share a row, so that each comes back as it was told."""
    return [_row(list(alike)) for measured, alike in groupby(points, _measured) if measured]


def _measured(point: TrainingPoint) -> tuple[tuple[Any, ...], ...]:
    return tuple((name, one.unit, one.better) for name, one in point.metrics.items())


def _row(points: Sequence[TrainingPoint]) -> TrainingBatch:
    steps = [point.step for point in points]
    epochs = [None if point.epoch is None else number_text(point.epoch) for point in points]
    first = points[0].metrics
    clean = {name: redact_text(name) for name in first}
    return TrainingBatch(
        steps=steps if any(step is not None for step in steps) else None,
        epochs=epochs if any(epochs) else None,
        metrics={clean[name]: [number_text(point.metrics[name].value) for point in points] for name in first},
        units={
            clean[name]: [None if one.unit is None else redact_text(one.unit), one.better]
            for name, one in first.items()
            if one.unit is not None or one.better is not None
        },
    )


def points_of(batches: Iterable[Batch]) -> list[TrainingPoint]:
    return [_shape(point) for batch in batches for point in _points(batch, range(_length(batch)))]


def _shape(point: Point) -> TrainingPoint:
    epoch = None if point.epoch is None else Decimal(point.epoch)
    metrics = {one.name: Measure(value=Decimal(one.text), unit=one.unit, better=one.better) for one in point.values}
    return TrainingPoint(epoch=epoch, step=point.step, metrics=metrics)


def count(batches: Iterable[Batch]) -> int:
    """How many points there are; one at which nothing was measured is none."""
    return sum(_count(batch) for batch in batches)


def _count(batch: Batch) -> int:
    columns = batch.metrics.values()
    if not any(None in column for column in columns):
        return _length(batch)
    return sum(any(text is not None for text in texts) for texts in zip(*columns, strict=True))


def last(batches: Sequence[Batch], most: int) -> list[Point]:
    """The last points, in their order."""
    backwards = (point for batch in reversed(batches) for point in _points(batch, range(_length(batch) - 1, -1, -1)))
    return list(islice(backwards, most))[::-1]


def measured(batches: Iterable[Batch]) -> Counter[str]:
    """How often each metric was measured, in the order in which they were told first."""
    found: Counter[str] = Counter()
    for batch in batches:
        for name, column in batch.metrics.items():
            found[name] += len(column) - column.count(None)
    return found


def extremes(batches: Iterable[Batch], name: str) -> Iterator[Point]:
    """Of each batch the first places where a metric is lowest and highest: the best of the run is one of them."""
    for batch in batches:
        told = [(Decimal(text), at) for at, text in enumerate(batch.metrics.get(name, ())) if text is not None]
        if told:
            places = {pick(told, key=lambda one: one[0])[1] for pick in (min, max)}
            yield from _points(batch, sorted(places), only=name)


def _length(batch: Batch) -> int:
    return len(next(iter(batch.metrics.values()), ()))


def _points(batch: Batch, places: Iterable[int], only: str | None = None) -> Iterator[Point]:
    columns = []
    for name, texts in batch.metrics.items():
        if only in (None, name):
            unit, better = batch.units.get(name, _NOTHING)
            columns.append(_Column(name, unit, better, texts))
    for at in places:
        values = tuple(
            Value(one.name, text, one.unit, one.better) for one in columns if (text := one.texts[at]) is not None
        )
        if values:
            yield Point(_at(batch.epochs, at), _at(batch.steps, at), values)


def _at(column: Sequence[Any] | None, at: int) -> Any:
    return None if column is None else column[at]
