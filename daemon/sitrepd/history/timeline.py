"""A session in the order in which it happened: facts at their own times, states of launches, and changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import sql
from sqlmodel import Session, func, or_

from sitrepd.errors import InvalidFact
from sitrepd.facts import Noun
from sitrepd.history import words
from sitrepd.history.index import number_of
from sitrepd.history.models import Moment, TimelinePage
from sitrepd.history.words import called
from sitrepd.slices import Registry
from sitrepd.storage import ids
from sitrepd.storage.base import Event

# Kinds that are told only where they are asked for: there are many, and they say little.
_QUIET = ("message", "phase", "trial")
# What is told at the same moment is listed in this order, other kinds in the middle.
_ORDER = ("session", "host", "model", "directive", "message", "stack", "launch", "benchmark")
_LAST = ("finding", "next_step", "checkpoint", "delivery")
_VERBS = {
    "launch": "started", "checkpoint": "written", "delivery": "handed over", "benchmark": "measured",
    "session": "opened", "command": "ran", "claim": "claimed", "stack": "recorded", "host": "seen", "message": "said",
}  # fmt: skip
_UNTIMED = "imported (no time)"
_EPOCH, _TICK = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
_NO_CHANGES = ("checkpoint.", "conversation.", "folder.")


@dataclass(frozen=True)
class Asked:
    """Which part of a session's past is wanted; `cursor` is that of the page before."""

    session_id: int
    kinds: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    fact: str | None = None
    newest: bool = False
    limit: int = 100
    cursor: str | None = None


@dataclass(frozen=True)
class _Key:
    """The place of a moment: time, rank of its source, number within it."""

    at: datetime
    rank: int
    number: int


@dataclass(frozen=True)
class _Source:
    """Moments of one sort: where they are, and how a row of (time, number, fact, more) is told."""

    rank: int
    at: Any
    number: Any
    columns: tuple[Any, ...]
    where: tuple[Any, ...]
    moment: Callable[[Any], Moment | None]


def kinds_of(registry: Registry, told: Sequence[str]) -> tuple[str, ...]:
    """Words for facts; `phase` is one of launches."""
    return words.kinds_of(registry.nouns, told, "phase")


def timeline(db: Session, registry: Registry, asked: Asked) -> TimelinePage:
    """One page, oldest first (newest first if asked for)."""
    after = _parse(asked.cursor) if asked.cursor is not None else None
    found: list[tuple[_Key, Moment | None]] = []
    for source in _sources(registry, asked):
        rows = db.connection().execute(_query(source, asked, after)).all()
        found += [(_Key(row.at, source.rank, row.number), source.moment(row)) for row in rows]
    found.sort(key=lambda one: (one[0].at, one[0].rank, one[0].number), reverse=asked.newest)
    chosen = found[: asked.limit]
    more = len(found) > asked.limit
    moments = [moment for _, moment in chosen if moment is not None]
    _name(db, registry, moments)
    return TimelinePage(data=moments, next_cursor=_written(chosen[-1][0]) if more else None)


def _query(source: _Source, asked: Asked, after: _Key | None) -> Any:
    where = [*source.where, source.at.is_not(None)]
    where += [source.at >= asked.since] if asked.since else []
    where += [source.at <= asked.until] if asked.until else []
    if after is not None:
        where.append(_beyond(source, after, asked.newest))
    order = [source.at, source.number]
    if asked.newest:
        order = [one.desc() for one in order]
    columns = (source.at.label("at"), source.number.label("number"), *source.columns)
    return sql.select(*columns).where(*where).order_by(*order).limit(asked.limit + 1)


def _beyond(source: _Source, after: _Key, newest: bool) -> Any:
    later = source.at < after.at if newest else source.at > after.at
    if source.rank == after.rank:
        further = source.number < after.number if newest else source.number > after.number
        return or_(later, (source.at == after.at) & further)
    comes_after = source.rank < after.rank if newest else source.rank > after.rank
    return or_(later, source.at == after.at) if comes_after else later


# --- sources -----------------------------------------------------------------------------------------------------


def _sources(registry: Registry, asked: Asked) -> Iterable[_Source]:
    only = _only(registry, asked.fact)
    for place, noun in enumerate(sorted(registry.nouns, key=_place)):
        if _wanted(asked, noun.word) and (noun.in_session or noun.word == "session"):
            yield from _of_noun(registry, noun, place * 10, asked, only)
    if _wanted(asked, "phase"):
        yield from _phases(registry, 900, asked, only)
    yield _changes(registry, 1000, asked, only)


def _place(noun: Noun) -> int:
    if noun.word in _ORDER:
        return _ORDER.index(noun.word)
    return len(_ORDER) + 1 + (_LAST.index(noun.word) if noun.word in _LAST else -1)


def _wanted(asked: Asked, word: str) -> bool:
    if asked.kinds:
        return word in asked.kinds
    return word not in _QUIET or asked.fact is not None


def _only(registry: Registry, fact: str | None) -> tuple[Noun, int] | None:
    parsed = ids.parse_id(fact) if fact else None
    if fact and (parsed is None or parsed[0] not in registry.by_prefix):
        raise InvalidFact(f"fact={fact!r} is no id of a fact; ids look like L14.")
    return (registry.by_prefix[parsed[0]], parsed[1]) if parsed else None


def _of_noun(
    registry: Registry, noun: Noun, rank: int, asked: Asked, only: tuple[Noun, int] | None
) -> Iterable[_Source]:
    table = noun.table.__table__.c  # type: ignore[attr-defined]
    mine = [table.id == asked.session_id if noun.word == "session" else table.session_id == asked.session_id]
    if only is not None:
        if only[0] is not noun:
            return
        mine.append(table.id == only[1])

    def source(offset: int, at: Any, what: Callable[[Any], str], *more: Any) -> _Source:
        columns = (table.id.label("fact"), *more)

        def moment(row: Any) -> Moment:
            return Moment(at=row.at, id=noun.public_id(row.fact), type=noun.word, what=what(row))

        return _Source(rank + offset, at, table.id, columns, tuple(mine), moment)

    untimed = _untimed(registry, table, asked).label("untimed")

    def first(row: Any) -> str:
        return _UNTIMED if row.untimed else _VERBS.get(noun.word, "told")

    if noun.word == "launch":
        yield source(0, func.coalesce(table.started_at, table.at, type_=table.at.type), first, untimed)
        yield source(1, table.ready_at, lambda _: "ready")
        yield source(2, table.ended_at, lambda row: row.state or "ended", table.state)
    elif noun.word == "session":
        yield source(0, sql.case((table.started_at < table.at, table.started_at), else_=table.at), first, untimed)
        yield source(1, table.ended_at, lambda _: "closed")
    elif noun.word == "delivery":
        yield source(0, table.at, first, untimed)
        yield source(1, table.echoed_at, lambda _: "echoed")
    else:
        yield source(0, table.at, first, untimed)


def _untimed(registry: Registry, table: Any, asked: Asked) -> Any:
    """Whether a fact bears but the time of the import, which says nothing about when it was."""
    session = registry.by_word["session"].table.__table__.c  # type: ignore[attr-defined]
    imported = sql.select(session.at).where(session.id == asked.session_id).scalar_subquery()
    timed = table.started_at.is_not(None) if "started_at" in table else sql.false()
    return sql.and_(table.imported_from.is_not(None), table.at == imported, sql.not_(timed))


def _phases(registry: Registry, rank: int, asked: Asked, only: tuple[Noun, int] | None) -> Iterable[_Source]:
    noun = registry.by_word["launch"]
    phase = next(child.table for child in noun.children if child.field == "phases").__table__.c
    launch = noun.table.__table__.c  # type: ignore[attr-defined]
    where = [phase.launch_id == launch.id, launch.session_id == asked.session_id]
    if only is not None:
        if only[0] is not noun:
            return
        where.append(launch.id == only[1])

    def moment(row: Any) -> Moment:
        return Moment(at=row.at, id=noun.public_id(row.fact), type="phase", what=row.name)

    columns = (launch.id.label("fact"), phase.name.label("name"))
    yield _Source(rank, phase.started_at, phase.id, columns, tuple(where), moment)


def _changes(registry: Registry, rank: int, asked: Asked, only: tuple[Noun, int] | None) -> _Source:
    """Told changes; what is observed of launches has moments of its own."""
    event = Event.__table__.c  # type: ignore[attr-defined]
    itself = (event.subject == f"S{asked.session_id}") & event.session_id.is_(None)
    where = [or_(event.session_id == asked.session_id, itself), event.kind.like("%.changed")]
    where += [~event.kind.startswith(prefix) for prefix in (*_NO_CHANGES, "delivery.", "host.")]
    if only is not None:
        where += [event.subject == only[0].public_id(only[1]), event.kind.startswith(f"{only[0].word}.")]
    kinds = [noun.word for noun in registry.nouns if _wanted(asked, noun.word)]
    where.append(event.kind.in_([f"{word}.changed" for word in kinds]))

    def moment(row: Any) -> Moment | None:
        data = row.data or {}
        changes = data.get("changes") or {}
        if data.get("changes") == {} or (not changes and "fields" not in data):
            return None
        fields = changes or {name: {} for name in data["fields"]}
        word = row.kind.partition(".")[0]
        return Moment(at=row.at, id=row.subject, type=word, what="changed", fields=fields)

    return _Source(rank, event.at, event.id, (event.kind, event.subject, event.data), tuple(where), moment)


# --- texts and cursors -------------------------------------------------------------------------------------------


def _name(db: Session, registry: Registry, moments: Sequence[Moment]) -> None:
    wanted: dict[str, set[int]] = {}
    for one in moments:
        noun = registry.by_word["launch" if one.type == "phase" else one.type]
        number = number_of(noun, one.id)
        if number is not None:
            wanted.setdefault(noun.word, set()).add(number)
    names = {
        (word, registry.by_word[word].public_id(number)): text
        for word, numbers in wanted.items()
        for number, (text, _) in called(db, registry.by_word[word], numbers).items()
    }
    for one in moments:
        one.text = names.get(("launch" if one.type == "phase" else one.type, one.id))


def _written(key: _Key) -> str:
    """In whole microseconds: a fraction would lose some."""
    return f"{(key.at - _EPOCH) // _TICK}.{key.rank}.{key.number}"


def _parse(cursor: str) -> _Key:
    try:
        ticks, rank, number = (int(part) for part in cursor.split("."))
        return _Key(_EPOCH + ticks * _TICK, rank, number)
    except (ValueError, OverflowError) as error:
        raise InvalidFact(f"cursor={cursor!r} is not one of ours: pass the next_cursor of the page before.") from error
