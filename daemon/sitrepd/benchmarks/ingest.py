"""Points of a training run, many at a time: columns of numbers in, rows out, in one transaction."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlmodel import Session, col, select

from sitrepd.benchmarks.metrics import describe
from sitrepd.benchmarks.models import Training, TrainingMetric
from sitrepd.decimals import number_text
from sitrepd.errors import InvalidFact
from sitrepd.redact import redact_text
from sitrepd.storage import events, ids
from sitrepd.storage.bulk import insert_rows

MOST_VALUES = 200_000
_MOST_NAME = 500
_RANGE = 1e300
_PLACES = ("step", "epoch")
_COLUMNS = ("name", "text", "value", "unit", "better", "training_id", "point", "epoch", "step")

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["metrics"],
    "properties": {
        "step": {"type": "array", "items": {"type": "integer"}, "description": "Where each value was measured."},
        "epoch": {"type": "array", "items": {"type": "number"}, "description": "The same in epochs; one of the two."},
        "metrics": {
            "type": "object",
            "additionalProperties": {"type": "array", "items": {"type": ["number", "null"]}},
            "description": "Columns as long as `step` or `epoch`; null where nothing was measured.",
        },
    },
    "example": {"step": [1, 2], "metrics": {"loss": [2.31, 2.12], "acc": [None, 0.41]}},
}


class _Told(str):
    """A number with a point or an exponent, as it stands in the JSON."""

    __slots__ = ()


Number = int | _Told
_NUMBERS = (_Told, int)


@dataclass(frozen=True)
class Columns:
    """As they were sent, and found to be right; a value is None where nothing was measured."""

    steps: Sequence[int | None]
    epochs: Sequence[str | None]
    metrics: Mapping[str, Sequence[Number | None]]


def read(body: bytes) -> Columns:
    """Raises InvalidFact for the first thing that is wrong; numbers keep the decimals that they were sent with."""
    try:
        told = json.loads(body, parse_float=_Told, parse_constant=_no_constant)
    except ValueError as error:
        raise InvalidFact(f"The body is no JSON: {error}.") from error
    if not isinstance(told, dict) or not isinstance(told.get("metrics"), dict) or not told["metrics"]:
        raise InvalidFact('`metrics` is wanted, as columns: {"step": [1, 2], "metrics": {"loss": [2.3, 2.1]}}.')
    unknown = told.keys() - {"metrics", *_PLACES}
    if unknown:
        raise InvalidFact(f"{min(unknown)} is not known here: step, epoch and metrics are.")
    length = len(next(iter(told["metrics"].values()))) if all(map(_is_list, told["metrics"].values())) else 0
    steps, epochs = (_column(name, told.get(name), length) for name in _PLACES)
    if steps is None and epochs is None:
        raise InvalidFact("`step` or `epoch` is wanted, as long as the columns: where each value was measured.")
    found = {redact_text(_name(name)): _metric(name, column, length) for name, column in told["metrics"].items()}
    if length * len(found) > MOST_VALUES:
        raise InvalidFact(f"{length * len(found)} values are too many at once: send at most {MOST_VALUES}.")
    return Columns(_steps(steps, length), _epochs(epochs, length), found)


def store(db: Session, training: Training, columns: Columns) -> int:
    """How many values were stored, after those that are there; one event tells of all of them."""
    number = training.id or 0
    last = select(TrainingMetric.point).where(TrainingMetric.training_id == number)
    before = db.exec(last.order_by(col(TrainingMetric.id).desc()).limit(1)).first()
    first = 0 if before is None else before + 1
    rows = list(_rows(number, first, columns))
    if rows:
        insert_rows(db, TrainingMetric.__table__, _COLUMNS, rows)  # type: ignore[attr-defined]
        subject = ids.public_id("T", number)
        events.record(db, "training.changed", subject, training.session_id, fields=["points"], added=len(rows))
    return len(rows)


def _rows(number: int, first: int, columns: Columns) -> Iterator[tuple[Any, ...]]:
    """Point by point: the last row is of the last point."""
    named = [(name, *describe(name), column) for name, column in columns.metrics.items()]
    for at, (step, epoch) in enumerate(zip(columns.steps, columns.epochs, strict=True)):
        for name, unit, better, column in named:
            value = column[at]
            if value is not None:
                yield name, _text(value), float(value), unit, better, number, first + at, epoch, step


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _name(name: str) -> str:
    if not 0 < len(name) <= _MOST_NAME:
        raise InvalidFact(f"metrics: a name of {len(name)} characters; 1 to {_MOST_NAME} are right.")
    return name


def _metric(name: str, column: Any, length: int) -> Sequence[Number | None]:
    if not isinstance(column, list) or len(column) != length:
        raise InvalidFact(f"metrics.{name}: a list of {length} numbers is wanted, as long as the others.")
    for at, value in enumerate(column):
        if value is not None and (type(value) not in _NUMBERS or not -_RANGE <= _size(value) <= _RANGE):
            raise InvalidFact(f"metrics.{name}.{at}: a number is wanted, or null where nothing was measured.")
    return column


def _column(name: str, column: Any, length: int) -> list[Number] | None:
    if column is None:
        return None
    if not isinstance(column, list) or len(column) != length:
        raise InvalidFact(f"{name}: a list of {length} numbers is wanted, as long as the columns of metrics.")
    for at, value in enumerate(column):
        if type(value) not in _NUMBERS or not 0 <= _size(value) <= _RANGE:
            raise InvalidFact(f"{name}.{at}: a number from 0 on is wanted.")
    return column


def _steps(column: list[Number] | None, length: int) -> Sequence[int | None]:
    if column is None:
        return [None] * length
    for at, value in enumerate(column):
        if type(value) is not int or value >= 2**63:
            raise InvalidFact(f"step.{at}: a whole number from 0 on is wanted.")
    return column  # type: ignore[return-value]


def _epochs(column: list[Number] | None, length: int) -> Sequence[str | None]:
    return [None] * length if column is None else [_text(value) for value in column]


def _size(value: Number) -> float:
    """A whole number may be too large for a float."""
    return value if type(value) is int else float(value)


def _text(value: Number) -> str:
    """With the decimals that it was sent with; only an exponent is written as everywhere."""
    text = str(value)
    return number_text(Decimal(text)) if "e" in text or "E" in text else text


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number; send null where nothing was measured")
