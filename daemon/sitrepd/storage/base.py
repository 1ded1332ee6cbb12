"""What every table shares: naming of constraints, the columns of a fact, the event log, the id counters."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from pydantic import ConfigDict
from sqlalchemy import JSON, BigInteger, ForeignKey, Integer
from sqlmodel import Field, SQLModel

from sitrepd.clock import utc_now
from sitrepd.storage.types import UTCDateTime

SQLModel.metadata.naming_convention = {
    "ix": "ix_%(column_0_N_label)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

# The integer key of SQLite must be INTEGER to be the row id.
BigKey = BigInteger().with_variant(Integer(), "sqlite")


class Row(SQLModel):
    """Base of all tables; their validators are made when they are first used, which is hardly ever."""

    model_config = ConfigDict(defer_build=True)  # type: ignore[assignment]


def now_field(**more: Any) -> Any:
    return Field(default_factory=utc_now, sa_type=UTCDateTime, **more)


def time_field(**more: Any) -> Any:
    return Field(default=None, sa_type=UTCDateTime, **more)


def json_field(default: Any = None, **more: Any) -> Any:
    return Field(default=default, sa_type=JSON, **more)


def big_field(**more: Any) -> Any:
    """A whole number that may pass 2**31 (bytes, parameters)."""
    return Field(default=None, sa_type=BigInteger, **more)


class FactRow(Row):
    """The columns that each fact has: its number, its session, where it comes from and since when it holds."""

    public_prefix: ClassVar[str] = ""

    id: int | None = Field(default=None, primary_key=True)
    session_id: int | None = Field(default=None, foreign_key="session.id", index=True)
    at: datetime = now_field()
    provenance: str
    observed_at: datetime = now_field()
    imported_from: str | None = None


class Event(Row, table=True):
    """One change of a fact; its id is the order of commit on SQLite, which has one writer."""

    id: int | None = Field(default=None, primary_key=True, sa_type=BigKey)
    at: datetime = now_field()
    session_id: int | None = Field(default=None, index=True)
    kind: str
    subject: str = Field(index=True)
    data: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)


class Counter(Row, table=True):
    """The last number given to each kind of fact: a number is never used twice."""

    word: str = Field(primary_key=True)
    last: int = 0


def link(table: str, **more: Any) -> Any:
    """A foreign key that is checked at commit, so that facts of one file may name each other in any order."""
    constraint = ForeignKey(f"{table}.id", deferrable=True, initially="DEFERRED")
    return Field(default=None, sa_type=Integer, sa_column_args=[constraint], index=True, **more)
