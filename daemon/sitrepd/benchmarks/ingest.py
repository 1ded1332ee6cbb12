"""Points of a training run, many at a time: columns of numbers in, and one row with them in the store."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlmodel import Session

from sitrepd.benchmarks.metrics import describe
from sitrepd.benchmarks.models import Training, TrainingBatch
from sitrepd.decimals import number_text
from sitrepd.errors import InvalidFact
from sitrepd.redact import redact_text
from sitrepd.storage import events, ids

MOST_VALUES = 200_000
_MOST_NAME = 500
_RANGE = 1e300
_SURE_LENGTH = 300
"""A number of so few characters is within the range, if it has no exponent."""
_PLACES = ("step", "epoch")
_MOST_STEP = 2**63 - 1

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


@dataclass(frozen=True)
class Columns:
    """As they were sent, and found to be right; a value is None where nothing was measured."""

    steps: list[int | None] | None
    epochs: list[str | None] | None
    metrics: dict[str, list[str | None]]

    @property
    def values(self) -> int:
        return sum(len(column) - column.count(None) for column in self.metrics.values())


def read(body: bytes) -> Columns:
    """Raises InvalidFact for the first thing that is wrong; numbers keep the decimals that they were sent with."""
    try:
        # Numbers as bytes, which nothing else of JSON is: with all their decimals, and sooner than as floats.
        told = json.loads(body, parse_float=str.encode, parse_int=str.encode, parse_constant=_no_constant)
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
    return Columns(_whole(steps), epochs, found)


def store(db: Session, training: Training, columns: Columns) -> int:
    """How many values were stored, after those that are there; one event tells of all of them."""
    stored = columns.values
    if stored:
        number = training.id or 0
        described = {name: describe(name) for name in columns.metrics}
        units = {name: list(told) for name, told in described.items() if any(told)}
        db.add(
            TrainingBatch(
                training_id=number, steps=columns.steps, epochs=columns.epochs, metrics=columns.metrics, units=units
            )
        )
        subject = ids.public_id("T", number)
        events.record(db, "training.changed", subject, training.session_id, fields=["points"], added=stored)
    return stored


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _name(name: str) -> str:
    if not 0 < len(name) <= _MOST_NAME:
        raise InvalidFact(f"metrics: a name of {len(name)} characters; 1 to {_MOST_NAME} are right.")
    return name


def _metric(name: str, column: Any, length: int) -> list[str | None]:
    if not isinstance(column, list) or len(column) != length:
        raise InvalidFact(f"metrics.{name}: a list of {length} numbers is wanted, as long as the others.")
    return _numbers(f"metrics.{name}", column, _METRIC, "a number is wanted, or null where nothing was measured")


def _column(name: str, column: Any, length: int) -> list[Any] | None:
    if column is None:
        return None
    if not isinstance(column, list) or len(column) != length:
        raise InvalidFact(f"{name}: a list of {length} numbers is wanted, as long as the columns of metrics.")
    return _numbers(name, column, _PLACE, "a number from 0 on is wanted")


@dataclass(frozen=True)
class _Kind:
    """What a column may hold; `unusual` finds in all its numbers together what must be looked at one by one."""

    types: frozenset[type]
    least: float
    unusual: re.Pattern[str]

    def takes(self, value: Any) -> bool:
        return type(value) in self.types and (value is None or self.least <= float(value) <= _RANGE)


_METRIC = _Kind(frozenset({bytes, type(None)}), -_RANGE, re.compile("[eE]"))
_PLACE = _Kind(frozenset({bytes}), 0, re.compile("[eE-]"))


def _numbers(place: str, column: list[Any], kind: _Kind, wanted: str) -> list[Any]:
    """As text."""
    if column and kind.types.issuperset(map(type, column)):
        told = list(filter(None, column))
        text = b" ".join(told).decode()
        if max(map(len, told), default=0) <= _SURE_LENGTH and not kind.unusual.search(text):
            return text.split(" ") if len(told) == len(column) else [value and value.decode() for value in column]
    for at, value in enumerate(column):
        if not kind.takes(value):
            raise InvalidFact(f"{place}.{at}: {wanted}.")
    return [None if value is None else _text(value.decode()) for value in column]


def _text(number: str) -> str:
    """With the decimals that it was sent with; only an exponent is written as everywhere."""
    return number_text(Decimal(number)) if "e" in number or "E" in number else number


def _whole(column: list[Any] | None) -> list[int | None] | None:
    if column is None:
        return None
    if all(map(str.isdecimal, column)):
        whole = [int(value) for value in column]
        if max(whole, default=0) <= _MOST_STEP:
            return [*whole]
    at = next(at for at, value in enumerate(column) if not value.isdecimal() or int(value) > _MOST_STEP)
    raise InvalidFact(f"step.{at}: a whole number from 0 on is wanted.")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number; send null where nothing was measured")
