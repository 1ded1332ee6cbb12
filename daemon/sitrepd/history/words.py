"""What a fact is called and all its words, read from its row in the same way for every kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from pydantic import BaseModel
from sqlalchemy import sql
from sqlmodel import Session

from sitrepd import facts
from sitrepd.errors import InvalidFact
from sitrepd.facts import Noun
from sitrepd.slices import Registry
from sitrepd.storage.search import MARKS, Document

# Observed of a fact rather than told, and worth finding.
_OBSERVED = ("failure", "suspect", "warnings")
# What a fact is called by, the first that it has.
_TITLES = ("title", "name", "text", "path", "command", "summary", "trigger", "to")
_KINDS = ("kind", "role", "status", "state")
_FLAGS = {
    "active": (False, "taken back"), "proposed": (True, "proposed"), "comparable": (False, "not comparable"),
    "baseline": (True, "baseline"), "pinned": (True, "pinned"), "synthetic": (True, "synthetic"),
}  # fmt: skip
_OTHER_WORDS = {"bench": "benchmark", "next": "next_step", "step": "next_step"}
_COMMON = ("id", "session_id", "at")
_NO_MARKS = dict.fromkeys(map(ord, MARKS))
_MOST_NUMBERS = 40
_MOST_IN = 400
_SHORT = 160


def kinds_of(nouns: Iterable[Noun], told: Sequence[str], *others: str) -> tuple[str, ...]:
    """The kinds that are meant by words in the singular or plural, as the API or the command line has them."""
    kinds = [(noun.word, noun.plural) for noun in nouns] + [(word, f"{word}s") for word in others]
    names = {word: word for word, _ in kinds}
    known = _OTHER_WORDS | {plural.replace("-", "_"): word for word, plural in kinds} | names
    found = []
    for one in (part for many in told for part in many.split(",")):
        word = known.get(one.strip().lower().replace("-", "_"))
        if word not in names:
            raise InvalidFact(f"kind={one!r} is no kind of fact: use {', '.join(names)}.")
        found.append(word)
    return tuple(dict.fromkeys(found))


def documents(db: Session, registry: Registry, noun: Noun, numbers: Sequence[int]) -> list[Document]:
    """The facts of one kind that are stored, with all their words; a few queries, however many they are."""
    found: list[Document] = []
    for start in range(0, len(numbers), _MOST_IN):
        rows = _rows(db, noun, numbers[start : start + _MOST_IN])
        searched = [child for child in noun.children if child.field not in noun.unsearched]
        children = {child.field: facts.children_of(db, child, rows) for child in searched}
        for row in rows:
            mine = {name: of.get(row.id) for name, of in children.items()}
            found.append(_document(registry, noun, row, mine))
    return found


def called(db: Session, noun: Noun, numbers: Iterable[int]) -> dict[int, tuple[str, str | None]]:
    """What the numbered facts are called, on one line, and what they are now (`rejected, superseded`)."""
    wanted = sorted(set(numbers))
    found: dict[int, tuple[str, str | None]] = {}
    for start in range(0, len(wanted), _MOST_IN):
        for row in _rows(db, noun, wanted[start : start + _MOST_IN]):
            found[row.id] = (short(title(noun, row)), state(row))
    return found


def _rows(db: Session, noun: Noun, numbers: Sequence[int]) -> list[Any]:
    """Columns rather than objects, which take ten times as long to make."""
    table = noun.table.__table__  # type: ignore[attr-defined]
    wanted = {*_COMMON, *_OBSERVED, *_TITLES, *_KINDS, *_FLAGS, *noun.fields, *(f"{name}_id" for name in noun.fields)}
    columns = [column for column in table.c if column.name in wanted - (set(noun.unsearched) - set(_KINDS))]
    return list(db.connection().execute(sql.select(*columns).where(table.c.id.in_(list(numbers)))).all())


def _document(registry: Registry, noun: Noun, row: Any, children: Mapping[str, Any]) -> Document:
    heading = next((name for name in ("title", "name") if getattr(row, name, None)), None)
    parts = [noun.public_id(row.id) if noun.prefix else "", str(getattr(row, heading)) if heading else ""]
    told = [_words(registry, noun, row, name, children) for name in noun.fields if name not in (heading, *_FLAGS)]
    told += [words(getattr(row, name, None)) for name in _OBSERVED]
    text = " · ".join(part for part in told if part)
    name = " ".join(part for part in parts if part)
    name, text = name.translate(_NO_MARKS), text.translate(_NO_MARKS)
    return Document(noun.word, row.id, row.session_id, row.at, state(row), name, text)


def _words(registry: Registry, noun: Noun, row: Any, name: str, children: Mapping[str, Any]) -> str:
    if name in noun.unsearched:
        return ""
    if name in children:
        return words(children[name])
    number = getattr(row, f"{name}_id", None)
    mark = noun.reference(name)
    if number is not None and mark is not None and mark.words:
        return registry.by_word[mark.words[0]].public_id(number)
    value = getattr(row, name, None)
    if isinstance(value, datetime):
        return ""
    # A number alone would say nothing.
    return words({name: value}) if isinstance(value, int | float) and not isinstance(value, bool) else words(value)


def title(noun: Noun, row: Any) -> str:
    """The first of what a fact may be called by; its kind alone where it has none."""
    for name in _TITLES:
        value = getattr(row, name, None)
        if isinstance(value, str) and value.strip():
            return value
    return noun.word.replace("_", " ")


def state(row: Any) -> str | None:
    """What it is, and whether it still holds: `rejected, superseded`."""
    told = [str(value).replace("_", " ") for name in _KINDS if (value := getattr(row, name, None))]
    told += [word for name, (value, word) in _FLAGS.items() if getattr(row, name, None) is value]
    return ", ".join(told) or None


def short(text: str) -> str:
    """One line that ends at a word."""
    line = " ".join(text.split())
    return line if len(line) <= _SHORT else f"{line[:_SHORT].rsplit(' ', 1)[0]} …"


def words(value: Any) -> str:
    """Any value as words: `tp=8, dtype=fp8` of settings, `94.0 tok/s` of a measure; no long rows of numbers."""
    if value is None or value == "" or isinstance(value, bool):
        return ""
    if isinstance(value, BaseModel):
        value = value.model_dump(exclude_none=True)
    if isinstance(value, Mapping):
        return _of_mapping(value)
    if isinstance(value, list | tuple):
        if len(value) > _MOST_NUMBERS and isinstance(value[0], int | float | Decimal):
            return ""
        return (" " if all(isinstance(one, str) for one in value) else ", ").join(filter(None, map(words, value)))
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _of_mapping(told: Mapping[Any, Any]) -> str:
    if "value" in told and set(told) <= {"value", "unit", "better"}:
        return f"{told['value']} {told.get('unit') or ''}".strip()
    parts = []
    for name, value in told.items():
        inner = ("yes" if value else "no") if isinstance(value, bool) else words(value)
        joint = " " if isinstance(value, Mapping | list | tuple | BaseModel) else "="
        parts += [f"{name}{joint}{inner}"] if inner else []
    return ", ".join(parts)
