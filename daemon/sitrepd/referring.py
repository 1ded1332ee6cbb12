"""How a field of a fact refers to other facts, by their public ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlmodel import Session

from sitrepd import redact
from sitrepd.errors import InvalidFact
from sitrepd.shapes import RefTo
from sitrepd.storage import ids

if TYPE_CHECKING:
    from sitrepd.facts import Noun, Scope


def refer(db: Session, noun: Noun, row: Any, name: str, value: Any, mark: RefTo, scope: Scope) -> None:
    """Set what the field refers to; InvalidFact where there is no such fact, or none may be meant."""
    if isinstance(value, list):
        setattr(row, name, [_canonical(db, scope, name, item, mark) for item in value])
        return
    parsed = ids.parse_id(value)
    target = scope.registry.by_prefix.get(parsed[0]) if parsed else None
    fits = target is not None and target.word in mark.words
    if target is not None and fits and parsed is not None:
        if not scope.exists(db, target, parsed[1]):
            raise _unknown(name, value)
        setattr(row, f"{name}_id", parsed[1])
        if name in type(row).model_fields:
            setattr(row, name, None)
    elif mark.or_text:
        setattr(row, name, redact.redact_text(value))
        setattr(row, f"{name}_id", None)
    else:
        wanted = " or ".join(mark.words)
        raise InvalidFact(
            f"{noun.word}.{name}: {value!r} is no id of a {wanted}.",
            errors=[{"field": name, "message": f"id of a {wanted}"}],
        )


def refer_to_nothing(row: Any, name: str) -> None:
    """Empty the field, whether it held an id or a text."""
    for column in (name, f"{name}_id"):
        if column in type(row).model_fields:
            setattr(row, column, None)


def _canonical(db: Session, scope: Scope, name: str, value: str, mark: RefTo) -> str:
    parsed = ids.parse_id(value)
    target = scope.registry.by_prefix.get(parsed[0]) if parsed else None
    if parsed is None or target is None:
        if mark.or_text:
            return redact.redact_text(value)
        raise InvalidFact(f"{name}: {value!r} is no id of a fact.", errors=[{"field": name, "message": "id of a fact"}])
    if not scope.exists(db, target, parsed[1]):
        if mark.or_text:
            return value
        raise _unknown(name, value)
    return target.public_id(parsed[1])


def _unknown(name: str, value: str) -> InvalidFact:
    return InvalidFact(f"{name}: there is no fact {value!r}.", errors=[{"field": name, "message": "unknown id"}])
