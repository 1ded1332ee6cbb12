"""What the reports of the slices share: quick reads of rows, and how a fact is put into a section."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Integer, sql
from sqlmodel import col

from sitrepd.clock import iso
from sitrepd.sections import Report
from sitrepd.storage import ids

_REFERENCE = re.compile(r"\$\{\w+\}")
_OTHER_VALUE = re.compile(r"(?:null|true|false)\Z|[\[{\"]")
_MINE, _AT_MOST = "my_session", "at_most"
_JOINT = re.compile(r"\\\r?\n([ \t]*)")


def table_of(report: Report, word: str) -> Any:
    return report.registry.by_word[word].table


def rows(
    report: Report,
    word: str,
    names: Sequence[str],
    *conditions: Any,
    limit: int | None = None,
    everywhere: bool = False,
) -> list[Any]:
    """The named columns of the session's facts of one kind, newest first; no objects are built for them."""
    query = _newest_first(table_of(report, word), tuple(names), everywhere, limit is not None)
    told = ({} if everywhere else {_MINE: report.session_id}) | ({} if limit is None else {_AT_MOST: limit})
    return _fetch(report, query, conditions, told)


def _fetch(report: Report, query: Any, conditions: Sequence[Any], told: Mapping[str, Any]) -> list[Any]:
    """Rows of columns, without the detour over objects."""
    return list(report.db.connection().execute(query.where(*conditions) if conditions else query, told).all())


# Statements are made once: putting one together takes longer than the database does to answer it.


@cache
def _newest_first(table: Any, names: tuple[str, ...], everywhere: bool, limited: bool) -> Any:
    query = _columns(table, names).order_by(col(table.id).desc())
    query = query if everywhere else query.where(_is_mine(table))
    return query.limit(sql.bindparam(_AT_MOST, type_=Integer)) if limited else query


@cache
def _of_owners(table: Any, owner: str, names: tuple[str, ...]) -> Any:
    return _columns(table, (owner, *names)).order_by(col(getattr(table, owner)), col(table.id))


@cache
def _how_many(table: Any) -> Any:
    return sql.select(sql.func.count()).select_from(table.__table__).where(_is_mine(table))


@cache
def _referred_to(table: Any, field: str) -> Any:
    return _columns(table, (field,)).where(_is_mine(table), col(getattr(table, field)).is_not(None)).distinct()


def _columns(table: Any, names: Sequence[str]) -> Any:
    return sql.select(*(table.__table__.c[name] for name in names))


def _is_mine(table: Any) -> Any:
    return col(table.session_id) == sql.bindparam(_MINE)


def count(report: Report, word: str, *conditions: Any) -> int:
    return int(_fetch(report, _how_many(table_of(report, word)), conditions, {_MINE: report.session_id})[0][0])


def among(column: Any, numbers: Iterable[int]) -> Any:
    """The condition that the column holds one of the numbers; they are put into the query as one list."""
    return col(column).in_(sql.bindparam(None, list(numbers), expanding=True, unique=True))


def children(
    report: Report, table: Any, owner: str, numbers: Sequence[int], names: Sequence[str], *conditions: Any
) -> dict[int, list[Any]]:
    """The named columns of rows that belong to the numbered facts, by fact, in the order in which they were stored."""
    found: dict[int, list[Any]] = {}
    if not numbers:
        return found
    key = getattr(table, owner)
    few = len(numbers) <= 500
    chosen = among(key, numbers) if few else (col(key) >= min(numbers)) & (col(key) <= max(numbers))
    wanted = set(numbers)
    for row in _fetch(report, _of_owners(table, owner, tuple(names)), (chosen, *conditions), {}):
        if row[0] in wanted:
            found.setdefault(row[0], []).append(row)
    return found


def linked(report: Report, word: str, field: str) -> set[int]:
    """The numbers that a field such as `host_id` of the session's facts of one kind refers to."""
    query = _referred_to(table_of(report, word), field)
    return {row[0] for row in _fetch(report, query, (), {_MINE: report.session_id})}


def names_of(report: Report, word: str, numbers: Iterable[int | None]) -> dict[int, dict[str, Any]]:
    """`{"id", "name"}` of the numbered facts."""
    wanted = {number for number in numbers if number is not None}
    if not wanted:
        return {}
    prefix = report.registry.by_word[word].prefix
    found = rows(report, word, ("id", "name"), among(table_of(report, word).id, wanted), everywhere=True)
    return {number: {"id": ids.public_id(prefix, number), "name": name} for number, name in found}


def public(prefix: str, number: int | None) -> str | None:
    return ids.public_id(prefix, number) if number is not None else None


def when(moment: datetime | None) -> str | None:
    """To the second, since a checkpoint is read by people."""
    return iso(moment, "seconds") if moment is not None else None


def told_at(report: Report, row: Any) -> datetime | None:
    """When a fact (`at`, `observed_at`, `imported_from`) was seen to hold.

    One that was imported without a time bears that of the import, which says nothing about it.
    """
    if row.imported_from is not None and row.at == report.session.at:
        return None
    moment: datetime = row.observed_at
    return moment


def present(**told: Any) -> dict[str, Any]:
    """What was told, without what was not."""
    return {name: value for name, value in told.items() if value is not None and value != [] and value != {}}


def measure(row: Any) -> dict[str, Any]:
    """A metric row (name, text, unit, better) with the decimals that it was told with."""
    return present(name=row.name, value=row.text, unit=row.unit, better=row.better)


def setting(name: str, value: Any) -> str:
    """`name=value` of a configuration; text stands as it is, in quotes where it would read as another value."""
    plain = isinstance(value, str) and not _OTHER_VALUE.match(value)
    return f"{name}={value if plain else json.dumps(value, ensure_ascii=False)}"


AROUND = "around"
"""Under this name a launch's `process` keeps what matters of the surroundings, beyond what its command says."""

# --- commands ----------------------------------------------------------------------------------------------------


def command_line(command: str | None, argv: Sequence[str] | None, env: Mapping[str, str] | None) -> str | None:
    """What starts it, to paste into a shell; None where it was not recorded. A told command stays as told."""
    if command:
        return joined(command)
    if not argv:
        return None
    return " ".join([*(f"{name}={_word(value)}" for name, value in (env or {}).items()), *map(_word, argv)])


def surroundings(command: str | None, env: Mapping[str, str] | None, process: Mapping[str, Any] | None) -> str | None:
    """What matters of the environment and is in no word of `command_line`, as `NAME=value` words."""
    around = {**((env or {}) if command else {}), **((process or {}).get(AROUND) or {})}
    return " ".join(f"{name}={_word(value)}" for name, value in sorted(around.items())) or None


def joined(command: str) -> str:
    """The command with the lines that end in a backslash joined, which a shell reads as the same."""
    if "\n" not in command:
        return command
    parts: list[str] = []
    quote, place = "", 0
    while place < len(command):
        char = command[place]
        joint = _JOINT.match(command, place) if quote != "'" else None
        if joint is not None:
            parts.append(_glue(parts, joint[1]) if not quote else joint[1])
            place = joint.end()
            continue
        if char == "\\" and quote != "'":
            parts.append(command[place : place + 2])
            place += 2
            continue
        if char in "'\"" and quote in ("", char):
            quote = "" if quote else char
        parts.append(char)
        place += 1
    return "".join(parts)


def _glue(parts: list[str], indent: str) -> str:
    return " " if indent and parts and not parts[-1].isspace() else ""


def _word(text: str) -> str:
    """A shell word; a reference `${NAME}` is left for the shell to resolve."""
    if not _REFERENCE.search(text):
        return shlex.quote(text)
    kept = re.sub(r'(["\\`])', r"\\\1", re.sub(r"\$(?!\{\w+\})", r"\\$", text))
    return f'"{kept}"'
