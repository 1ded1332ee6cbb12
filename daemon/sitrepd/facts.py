"""What all nouns share: how a told shape becomes a row, and a row an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from sqlmodel import Session, col, func, select

from sitrepd import noting, redact, referring
from sitrepd.clock import iso, utc_now
from sitrepd.errors import InvalidFact, UnknownId
from sitrepd.shapes import FactIn, FactOut, RefTo
from sitrepd.storage import events, ids
from sitrepd.storage.base import FactRow

if TYPE_CHECKING:
    from sitrepd.slices import Registry

_COMMON = frozenset(FactIn.model_fields)


@dataclass(frozen=True)
class Scope:
    """In whose name a fact is told: the session it goes to, and where it comes from."""

    registry: Registry
    provenance: str
    session_id: int | None = None
    imported_from: str | None = None
    reserved: frozenset[str] = frozenset()
    now: datetime = field(default_factory=utc_now)

    def exists(self, db: Session, noun: Noun, number: int) -> bool:
        """Whether that fact is stored, or will be by the end of this import."""
        return noun.public_id(number) in self.reserved or self.registry.exists(db, noun, number)


@dataclass(frozen=True)
class Page:
    """One page of a list, newest first; `cursor` continues it."""

    rows: Sequence[Any]
    count: int
    cursor: str | None


@dataclass(frozen=True)
class Noun:
    """One kind of fact: its word, its id, its table and the shapes it speaks."""

    word: str
    plural: str
    prefix: str
    table: type[FactRow]
    create: type[FactIn]
    update: type[BaseModel]
    public: type[FactOut]
    summary: str
    line: str | None = None
    in_session: bool = True
    writable: bool = True
    children: tuple[Child, ...] = ()
    settled: Callable[[Session, Any, Scope], None] | None = None
    portable: bool = True
    """Whether it has lines in a session file; what holds of this machine alone has none."""
    searched: bool = True
    """Whether its words can be found by full text."""
    unsearched: tuple[str, ...] = ()
    """Fields whose words cannot, since they are told elsewhere already."""

    @property
    def line_type(self) -> str:
        """The `type` of its lines in a session file."""
        return self.line or self.word

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that are told, without those that every fact has."""
        return tuple(name for name in self.create.model_fields if name not in _COMMON)

    def public_id(self, number: int | None) -> str:
        return ids.public_id(self.prefix, number or 0)

    def reference(self, name: str) -> RefTo | None:
        """How the field `name` refers to other facts, if it does."""
        return _reference(self.create, name)


@dataclass(frozen=True)
class Child:
    """Rows that belong to one field of a fact, such as a benchmark's metrics; without `to_rows` they are not told."""

    field: str
    table: type[Any]
    owner: str
    to_rows: Any
    from_rows: Any


def _reference(shape: type[BaseModel], name: str) -> RefTo | None:
    info = shape.model_fields[name]
    for mark in _marks(info.annotation, info.metadata):
        if isinstance(mark, RefTo):
            return mark
    return None


def _marks(annotation: Any, metadata: Iterable[Any]) -> Iterable[Any]:
    yield from metadata
    for argument in getattr(annotation, "__args__", ()):
        yield from _marks(argument, getattr(argument, "__metadata__", ()))
    yield from getattr(annotation, "__metadata__", ())


# --- reading -----------------------------------------------------------------------------------------------------


def number_of(db: Session, noun: Noun, text: str) -> int:
    """The row number of a public id such as "L14", or UnknownId."""
    parsed = ids.parse_id(text)
    number = ids.parse_number(text)
    if number is not None and noun.prefix == "":
        parsed = ("", number)
    if parsed is None or parsed[0] != noun.prefix or db.get(noun.table, parsed[1]) is None:
        raise UnknownId(
            f"There is no {noun.word} {text!r}. Ids of {noun.plural} look like {noun.public_id(1)}; list them with "
            f"GET /api/v1/{noun.plural.replace(' ', '-')}."
        )
    return parsed[1]


def get(db: Session, noun: Noun, text: str) -> Any:
    return db.get(noun.table, number_of(db, noun, text))


def page(
    db: Session, noun: Noun, session_id: int | None, limit: int, cursor: str | None, *where: Any, **equal: Any
) -> Page:
    """Facts of one kind, newest first, at most `limit`; `where` and `equal`, by column, filter."""
    table = noun.table
    conditions = [*where, *([] if session_id is None else [col(table.session_id) == session_id])]
    conditions += [col(getattr(table, name)) == value for name, value in equal.items() if value is not None]
    count = db.exec(select(func.count()).select_from(table).where(*conditions)).one()
    query = select(table).where(*conditions).order_by(col(table.id).desc()).limit(limit + 1)
    if cursor is not None:
        query = query.where(col(table.id) < before(cursor))
    rows = list(db.exec(query).all())
    more = len(rows) > limit
    rows = rows[:limit]
    return Page(rows, count, str(rows[-1].id) if more else None)


def before(cursor: str) -> int:
    """The number that the rows of the next page are below."""
    number = ids.parse_number(cursor)
    if number is None:
        raise InvalidFact(f"cursor={cursor!r} is not one of ours: pass the next_cursor of the page before.")
    return number


def all_rows(db: Session, noun: Noun, session_id: int | None) -> list[Any]:
    """All facts of one kind of a session, oldest first."""
    query = select(noun.table).order_by(col(noun.table.id))
    if session_id is not None:
        query = query.where(col(noun.table.session_id) == session_id)
    return list(db.exec(query).all())


def publish(db: Session, registry: Registry, noun: Noun, rows: Sequence[Any]) -> list[Any]:
    """Rows as the shapes that the API speaks; children are read in one query a kind, not one a row."""
    by_child = {child.field: children_of(db, child, rows) for child in noun.children}
    told: list[Any] = []
    for row in rows:
        values = {name: _column(registry, noun, row, name) for name in noun.public.model_fields if name != "session"}
        values |= {name: of.get(row.id) for name, of in by_child.items()}
        values["id"] = noun.public_id(row.id)
        values["session"] = ids.public_id("S", row.session_id) if row.session_id else None
        told.append(noun.public.model_validate({name: value for name, value in values.items() if value is not None}))
    return told


def publish_one(db: Session, registry: Registry, noun: Noun, row: Any) -> Any:
    return publish(db, registry, noun, [row])[0]


def children_of(db: Session, child: Child, rows: Sequence[Any]) -> dict[int, Any]:
    """The value of a child's field, by the number of the fact that it belongs to."""
    numbers = [row.id for row in rows]
    if not numbers:
        return {}
    owner = col(getattr(child.table, child.owner))
    query = select(child.table).where(owner.in_(numbers) if len(numbers) < 500 else owner >= min(numbers))
    by_owner: dict[int, list[Any]] = {}
    for row in db.exec(query.order_by(col(child.table.id))).all():
        by_owner.setdefault(getattr(row, child.owner), []).append(row)
    return {number: child.from_rows(found) for number, found in by_owner.items()}


def _column(registry: Registry, noun: Noun, row: Any, name: str) -> Any:
    number = getattr(row, f"{name}_id", None)
    if number is not None and name in noun.create.model_fields:
        mark = noun.reference(name)
        if mark is not None and mark.words:
            return registry.by_word[mark.words[0]].public_id(number)
    return getattr(row, name, None)


# --- writing -----------------------------------------------------------------------------------------------------


def tell(db: Session, noun: Noun, data: FactIn, scope: Scope) -> Any:
    """Store a told fact, with what follows from it."""
    row = create(db, noun, data, scope)
    settle(db, noun, row, scope)
    return row


def tell_word(db: Session, scope: Scope, word: str, told: Mapping[str, Any]) -> Any:
    """As `tell`, of the noun that is called so, with values that are not validated yet."""
    noun = scope.registry.by_word[word]
    return tell(db, noun, noun.create.model_validate(told), scope)


def settle(db: Session, noun: Noun, row: Any, scope: Scope) -> None:
    """Do what follows from a stored fact, once all facts that it names are stored too."""
    if noun.settled is not None:
        noun.settled(db, row, scope)


def create(db: Session, noun: Noun, data: FactIn, scope: Scope, number: int | None = None) -> Any:
    """Store a told fact as a row; `number` is given when it was reserved before."""
    at = data.at or scope.now
    row = noun.table(
        id=number or ids.allocate(db, noun.word),
        session_id=scope.session_id if noun.in_session else None,
        at=at,
        provenance=redact.redact_text(data.provenance or scope.provenance),
        observed_at=data.observed_at or at,
        imported_from=redact.redact_text(scope.imported_from) if scope.imported_from else None,
    )
    _assign(db, noun, row, {name: getattr(data, name) for name in noun.fields}, scope)
    if getattr(data, "started_at", None) is not None:
        _check_times(row)
    db.add(row)
    db.flush()
    for child in noun.children:
        if child.to_rows is not None:
            _add_children(db, child, row, getattr(data, child.field))
    events.record(db, f"{noun.word}.created", noun.public_id(row.id), row.session_id)
    return row


def update(db: Session, noun: Noun, row: Any, data: BaseModel, scope: Scope) -> Any:
    """Change the fields that `data` sets; each change is an event that names them."""
    changed = {name: getattr(data, name) for name in data.model_fields_set}
    if not changed:
        raise InvalidFact(f"Nothing to change: give at least one of {', '.join(type(data).model_fields)}.")
    required = [name for name, value in changed.items() if value is None and not _may_be_absent(noun, name)]
    if required:
        raise InvalidFact(f"{', '.join(required)} cannot be emptied.", errors=[{"field": name} for name in required])
    before = _noted(db, noun, row, changed, scope)
    _assign(db, noun, row, changed, scope)
    if not {"started_at", "ended_at"}.isdisjoint(changed):
        _check_times(row)
    for child in noun.children:
        if child.field in changed:
            _replace_children(db, child, row, changed[child.field])
    db.add(row)
    db.flush()
    changes = noting.differences(before, _noted(db, noun, row, changed, scope))
    subject = noun.public_id(row.id)
    events.record(db, f"{noun.word}.changed", subject, row.session_id, fields=sorted(changed), changes=changes)
    settle(db, noun, row, scope)
    return row


def _check_times(row: Any) -> None:
    started, ended = getattr(row, "started_at", None), getattr(row, "ended_at", None)
    if started is not None and ended is not None and ended < started:
        told = f"ended_at ({iso(ended)}) is before started_at ({iso(started)})"
        raise InvalidFact(f"{told}.", errors=[{"field": "ended_at", "message": told}])


def _noted(db: Session, noun: Noun, row: Any, names: Iterable[str], scope: Scope) -> dict[str, Any]:
    """The fields as an event notes them: as JSON, measures with the decimals that they were told with."""
    children = {child.field: child for child in noun.children}
    found: dict[str, Any] = {}
    for name in names:
        if name in children:
            value = children_of(db, children[name], [row]).get(row.id)
        else:
            value = _column(scope.registry, noun, row, name)
        found[name] = noting.noted(value)
    return found


def _may_be_absent(noun: Noun, name: str) -> bool:
    column = noun.table.__table__.columns.get(name)  # type: ignore[attr-defined]
    return not noun.create.model_fields[name].is_required() and (column is None or bool(column.nullable))


def _replace_children(db: Session, child: Child, row: Any, value: Any) -> None:
    for old in db.exec(select(child.table).where(col(getattr(child.table, child.owner)) == row.id)).all():
        db.delete(old)
    _add_children(db, child, row, value)


def _add_children(db: Session, child: Child, row: Any, value: Any) -> None:
    for new in child.to_rows(value) if value else ():
        setattr(new, child.owner, row.id)
        _clean_columns(new)
        db.add(new)


def _assign(db: Session, noun: Noun, row: Any, values: Mapping[str, Any], scope: Scope) -> None:
    children = {child.field for child in noun.children}
    for name, value in values.items():
        if name in children:
            continue
        mark = noun.reference(name)
        if mark is not None and value is not None:
            referring.refer(db, noun, row, name, value, mark, scope)
        elif mark is not None:
            referring.refer_to_nothing(row, name)
        else:
            setattr(row, name, _plain(_clean(name, value)))


def _clean_columns(row: Any) -> None:
    """Names and units are told too, and may hold what they should not."""
    for name in type(row).model_fields:
        value = getattr(row, name)
        if isinstance(value, str) and (clean := redact.redact_text(value)) != value:
            setattr(row, name, clean)


def _clean(name: str, value: Any) -> Any:
    """Nothing secret is stored: values become references, keys in text become a mark."""
    if name == "command" and isinstance(value, str):
        return redact.redact_command(value)
    if name == "argv" and isinstance(value, list):
        return redact.redact_argv(value)
    if name == "env" and isinstance(value, dict):
        return redact.redact_env(value)
    return redact.redact_json(_plain(value))


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_none=True)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
