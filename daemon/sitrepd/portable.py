"""The portable session file: JSON Lines in, facts out, and back; a file is taken whole or not at all.

A checkpoint's JSON is taken in as well: `checkpoints.restore` makes lines of it, and they become facts like others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import simplejson
from pydantic import BaseModel, Field, ValidationError
from sqlmodel import Session, col, select

from sitrepd import facts, problems
from sitrepd.checkpoints import restore
from sitrepd.clock import iso
from sitrepd.errors import Conflict, InvalidFact
from sitrepd.facts import Noun, Scope
from sitrepd.redact import redact_text
from sitrepd.sessions import current
from sitrepd.shapes import FactIn
from sitrepd.slices import Registry
from sitrepd.storage import events, ids
from sitrepd.storage.base import Event

_MOST_ERRORS = 20
# Lines are easiest to read in this order; kinds that are not named follow.
_ORDER = ("session", "host", "model", "directive", "message", "stack", "launch", "benchmark", "reference")


class Imported(BaseModel):
    """What an import has stored."""

    session: str
    counts: dict[str, int] = Field(description="Facts stored, by type of line.")
    keys: dict[str, str] = Field(default_factory=dict, description="Keys of the file and the ids that they became.")
    missing: list[str] = Field(
        default_factory=list, description="Of a checkpoint: what its facts refer to, and it does not tell."
    )


@dataclass
class Line:
    """One valid line: the noun, the told shape, and its key in the file."""

    number: int
    noun: Noun
    told: FactIn
    key: str | None = None
    row_number: int = 0


@dataclass
class File:
    """Its lines; of a checkpoint also its id and what it does not tell."""

    lines: list[Line] = field(default_factory=list)
    digest: str = ""
    checkpoint: str | None = None
    missing: list[str] = field(default_factory=list)


def parse(data: bytes, registry: Registry, name: str) -> File:
    """All lines of a session file, or InvalidFact that names each bad line and why."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        at_line = data.count(b"\n", 0, error.start) + 1
        raise InvalidFact(f"{name}, line {at_line}: not UTF-8. A session file is JSON Lines in UTF-8.") from error
    file = File(digest=hashlib.sha256(data).hexdigest())
    document = restore.document_in(text)
    if document is not None:
        return _restored(document, file, registry, name)
    faults: list[dict[str, Any]] = []
    keys: dict[str, int] = {}
    for number, raw in enumerate(text.split("\n"), 1):
        if not raw.strip():
            continue
        try:
            line = _line(_value(raw), number, registry)
        except InvalidFact as error:
            faults.append({"line": number, "message": error.detail})
            continue
        if line.key is not None:
            if line.key in keys:
                faults.append(
                    {"line": number, "message": f"key {line.key!r} was used in line {keys[line.key]} already"}
                )
            keys.setdefault(line.key, number)
        file.lines.append(line)
    if not file.lines and not faults:
        faults.append({"line": 1, "message": "the file is empty; the first line is usually a session"})
    if faults:
        raise _refused(name, faults)
    return file


def _restored(document: Mapping[str, Any], file: File, registry: Registry, name: str) -> File:
    """The lines that a checkpoint's JSON is worth."""
    try:
        restored = restore.restore(document, registry)
    except InvalidFact as error:
        raise _refused(name, [{"line": 1, "message": error.detail}]) from error
    faults = []
    for value in restored.lines:
        key = value.get("key")
        try:
            file.lines.append(_line(dict(value), 1, registry))
        except InvalidFact as error:
            faults.append({"line": 1, "message": f"{key}: {error.detail}" if key else error.detail})
    if faults:
        raise _refused(name, faults)
    file.checkpoint, file.missing = restored.id, restored.missing
    return file


def _refused(name: str, faults: list[dict[str, Any]]) -> InvalidFact:
    first = faults[0]
    more = f" ({len(faults) - 1} more bad lines)" if len(faults) > 1 else ""
    detail = f"{name}, line {first['line']}: {first['message']}.{more} Nothing was imported."
    return InvalidFact(detail, errors=faults[:_MOST_ERRORS])


def _value(raw: str) -> dict[str, Any]:
    try:
        value = simplejson.loads(raw, use_decimal=True, allow_nan=False)
    except simplejson.JSONDecodeError as error:
        raise InvalidFact(f"not JSON ({error.msg} at column {error.colno})") from error
    if not isinstance(value, dict):
        raise InvalidFact("each line is one JSON object")
    return value


def _line(value: dict[str, Any], number: int, registry: Registry) -> Line:
    noun = registry.by_line.get(value.pop("type", None))
    if noun is None:
        raise InvalidFact(f"unknown or missing type; known are {', '.join(sorted(registry.by_line))}")
    key = value.pop("key", None)
    if key is not None and (not isinstance(key, str) or not key):
        raise InvalidFact("key is text")
    try:
        return Line(number, noun, noun.create.model_validate(value), key)
    except ValidationError as error:
        told = "; ".join(
            f"{problems.field_name(('body', *one['loc']))}: {problems.message(one)}" for one in error.errors()[:3]
        )
        raise InvalidFact(f"{noun.line_type}: {told}") from error


def store(
    db: Session,
    registry: Registry,
    file: File,
    name: str,
    teller: str,
    hint: current.Hint | None = None,
    again: bool = False,
) -> Imported:
    """Store the lines in the caller's transaction; lines may refer to each other in any order."""
    _refuse_twice(db, file, name, again)
    _number(db, file)
    if file.checkpoint is not None:
        name = f"{file.checkpoint} in {name}"
    known = {line.key: _called(line) for line in file.lines if line.key}
    session_number = next((line.row_number for line in file.lines if line.noun.word == "session"), None)
    if session_number is None:
        session_number = current.resolve(db, hint or current.Hint())
    reserved = frozenset(line.noun.public_id(line.row_number) for line in file.lines if line.noun.prefix)
    scope = Scope(registry, f"imported:{name}", session_number, imported_from=name, reserved=reserved)
    counts: dict[str, int] = {}
    rows = []
    for line in sorted(file.lines, key=lambda line: line.noun.word != "session"):
        try:
            rows.append((line, facts.create(db, line.noun, _resolved(line, known), scope, line.row_number)))
        except InvalidFact as error:
            raise _refused(name, [{"line": line.number, "message": error.detail.rstrip(".")}]) from error
        counts[line.noun.line_type] = counts.get(line.noun.line_type, 0) + 1
    for line, row in rows:
        facts.settle(db, line.noun, row, scope)
    session = ids.public_id("S", session_number)
    events.record(
        db, "session.imported", session, session_number, digest=file.digest, file=redact_text(name), by=teller
    )
    keys = {key: told for key, told in known.items() if " " not in told}
    return Imported(session=session, counts=counts, keys=keys, missing=file.missing)


def _number(db: Session, file: File) -> None:
    """New numbers; of a checkpoint its own, for the kinds of which this store has used none so far.

    Text that names a fact of the checkpoint then still names the same one.
    """
    by_word: dict[str, list[Line]] = {}
    for line in file.lines:
        by_word.setdefault(line.noun.word, []).append(line)
    for word, lines in by_word.items():
        told = [parsed[1] for line in lines if (parsed := ids.parse_id(line.key or "")) is not None]
        own = file.checkpoint is not None and len(told) == len(lines) and ids.take(db, word, told)
        numbers = told if own else range(first := ids.allocate(db, word, len(lines)), first + len(lines))
        for line, number in zip(lines, numbers, strict=True):
            line.row_number = number


def _called(line: Line) -> str:
    """What other facts call it: its id, or in words where its kind has none."""
    if line.noun.prefix:
        return line.noun.public_id(line.row_number)
    return f"{line.noun.line_type} {getattr(line.told, 'number', None) or line.key}"


def _refuse_twice(db: Session, file: File, name: str, again: bool) -> None:
    if again:
        return
    for event in db.exec(select(Event).where(col(Event.kind) == "session.imported")).all():
        if event.data.get("digest") == file.digest:
            raise Conflict(
                f"{name} was imported already, as {event.subject} on {iso(event.at)}. Use --again to import it anew."
            )


def _resolved(line: Line, known: Mapping[str, str]) -> FactIn:
    """The told shape with the keys of this file replaced by ids."""
    changes: dict[str, Any] = {}
    for name in line.noun.fields:
        mark = line.noun.reference(name)
        value = getattr(line.told, name)
        if mark is None or value is None:
            continue
        changes[name] = (
            [known.get(item, item) for item in value] if isinstance(value, list) else known.get(value, value)
        )
    return line.told.model_copy(update=changes)


def export(db: Session, registry: Registry, session_number: int) -> str:
    """The session and all that it refers to, one JSON object a line; keys are the public ids."""
    rows: dict[str, dict[int, Any]] = {}
    for noun in registry.nouns:
        found = facts.all_rows(db, noun, session_number) if noun.in_session and noun.portable else []
        rows[noun.word] = {row.id: row for row in found}
    session_noun = registry.by_word["session"]
    rows["session"] = {session_number: db.get(session_noun.table, session_number)}
    _add_referred(db, registry, rows)
    lines: list[str] = []
    for noun in sorted(
        registry.nouns, key=lambda noun: _ORDER.index(noun.word) if noun.word in _ORDER else len(_ORDER)
    ):
        ordered = [rows[noun.word][number] for number in sorted(rows[noun.word])]
        lines += [_dump(noun, told) for told in facts.publish(db, registry, noun, ordered)]
    return "\n".join(lines) + "\n"


def _add_referred(db: Session, registry: Registry, rows: dict[str, dict[int, Any]]) -> None:
    """Hosts and model cards belong to no session, but go along with the facts that name them."""
    waiting = [(noun, row) for noun in registry.nouns for row in rows[noun.word].values()]
    while waiting:
        noun, row = waiting.pop()
        for target, number in _referred(registry, noun, row):
            if number not in rows[target.word] and target.word not in ("session", "checkpoint"):
                found = db.get(target.table, number)
                if found is not None and found.session_id is None:
                    rows[target.word][number] = found
                    waiting.append((target, found))


def _referred(registry: Registry, noun: Noun, row: Any) -> Iterable[tuple[Noun, int]]:
    for name in noun.fields:
        mark = noun.reference(name)
        number = getattr(row, f"{name}_id", None)
        if mark is not None and mark.words and number is not None:
            yield registry.by_word[mark.words[0]], number


def _dump(noun: Noun, told: BaseModel) -> str:
    values: dict[str, Any] = {"type": noun.line_type}
    if noun.prefix:
        values["key"] = told.id  # type: ignore[attr-defined]
    python = told.model_dump(mode="python", exclude_none=True)
    for name in ("at", "provenance", "observed_at", *noun.fields):
        value = python.get(name)
        if value is not None and value != [] and value != {}:
            values[name] = value
    return simplejson.dumps(values, use_decimal=True, ensure_ascii=False, allow_nan=False, default=_time)


def _time(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    raise TypeError(f"{type(value).__name__} is not told")
