"""Full-text search over what was told: what is looked up, and what each database must be able to do for it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from importlib import import_module
from typing import Any, Protocol

from sqlalchemy import Connection, event
from sqlalchemy import Index as SqlIndex
from sqlmodel import Field, Session

from sitrepd.errors import StoreUnusable
from sitrepd.storage.base import BigKey, Row
from sitrepd.storage.types import UTCDateTime

# The databases that can search, each by a module with a function `make() -> Index`.
_BY_DIALECT = {"sqlite": "sitrepd.storage.search_sqlite"}
# A longer text is looked up in parts, so that a snippet of it costs no more than one of a short text.
PART = 30_000
_MOST_TERMS = 32
_TERM = re.compile(r'"([^"]*)"(\*?)|(\S+)')


class SearchEntry(Row, table=True):
    """The words of one fact, or of one part of a long one; `scope` holds kind and session as words of their own."""

    __tablename__ = "search_entry"
    __table_args__ = (SqlIndex("ix_search_entry_kind_number", "kind", "number"),)

    id: int | None = Field(default=None, primary_key=True, sa_type=BigKey)
    kind: str
    number: int = Field(sa_type=BigKey)
    part: int = 0
    session_id: int | None = None
    at: datetime = Field(sa_type=UTCDateTime)
    state: str | None = None
    name: str
    text: str
    scope: str


class SearchState(Row, table=True):
    """The last event whose fact can be found."""

    __tablename__ = "search_state"

    id: int = Field(default=1, primary_key=True)
    event: int = Field(default=0, sa_type=BigKey)


@dataclass(frozen=True)
class Document:
    """All words of one fact: `name` is its id and title, which weigh more."""

    kind: str
    number: int
    session_id: int | None
    at: datetime
    state: str | None
    name: str
    text: str


@dataclass(frozen=True)
class Term:
    """A word or a phrase to be found; with `prefix` its last word may go on."""

    text: str
    prefix: bool = False


@dataclass(frozen=True)
class Question:
    """All terms must be found, in facts of these kinds (any, if none) and of that session (any, if None)."""

    terms: tuple[Term, ...]
    kinds: tuple[str, ...] = ()
    session_id: int | None = None
    limit: int = 20
    offset: int = 0


@dataclass(frozen=True)
class Hit:
    """A fact that was found; in `snippet` each word that was looked for stands between MARKS."""

    kind: str
    number: int
    session_id: int | None
    at: datetime
    state: str | None
    name: str
    snippet: str


@dataclass(frozen=True)
class Found:
    """One page of what was found, best first; `count` is exact unless `at_least`."""

    hits: list[Hit] = field(default_factory=list)
    count: int = 0
    at_least: bool = False
    more: bool = False


MARKS = ("\x02", "\x03")


class Index(Protocol):
    """What a database does for search, within the caller's transaction."""

    def create(self, connection: Connection) -> None:
        """Make what it needs beside the table of entries."""
        ...

    def replace(self, db: Session, kind: str, numbers: Iterable[int], documents: Sequence[Document]) -> None:
        """From now on these facts have these words; those without a document are found no more."""
        ...

    def clear(self, db: Session) -> None:
        """Forget everything."""
        ...

    def find(self, db: Session, question: Question, any_term: bool = False) -> Found:
        """What holds all terms, best first; with `any_term` what holds one of them."""
        ...

    def naming(self, db: Session, word: str) -> set[tuple[str, int]]:
        """(kind, number) of the facts whose text, not their name, holds that word."""
        ...


def index_of(db: Session) -> Index:
    """Search as the database of this session does it."""
    return _index(db.get_bind().dialect.name)


@cache
def _index(dialect: str) -> Index:
    if dialect not in _BY_DIALECT:
        raise StoreUnusable(f"Full-text search is not to be had on {dialect}.")
    made: Any = import_module(_BY_DIALECT[dialect])
    found: Index = made.make()
    return found


@event.listens_for(SearchEntry.__table__, "after_create")  # type: ignore[attr-defined]
def _created(_table: Any, connection: Connection, **_: Any) -> None:
    _index(connection.dialect.name).create(connection)


def terms_of(asked: str) -> tuple[Term, ...]:
    """Words, `"phrases in quotes"` and `begin*` of a question; nothing that can be typed is an error."""
    found: dict[Term, None] = {}
    text = "".join(letter if letter.isprintable() else " " for letter in asked)
    if text.count('"') % 2:
        text = text.replace('"', " ")
    for phrase, star, word in _TERM.findall(text):
        told = phrase or word.rstrip("*").replace('"', " ")
        if any(letter.isalnum() for letter in told):
            found[Term(told, bool(star) or word.endswith("*"))] = None
    return tuple(found)[:_MOST_TERMS]


def parts_of(text: str) -> list[str]:
    """The text in parts of at most PART characters, cut between words where there are any."""
    parts = []
    while len(text) > PART:
        cut = text.rfind(" ", PART // 2, PART)
        cut = PART if cut < 0 else cut
        parts.append(text[:cut])
        text = text[cut:]
    return [*parts, text]
