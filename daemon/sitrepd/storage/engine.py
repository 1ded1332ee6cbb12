"""SQLAlchemy engines with the pragmas that the store relies on."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, NullPool, QueuePool, create_engine, event

from sitrepd.storage.types import plain_json

_SHARED = ("PRAGMA foreign_keys=ON", "PRAGMA busy_timeout=10000", "PRAGMA temp_store=MEMORY")
_WRITER = ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "PRAGMA journal_size_limit=67108864", *_SHARED)
_READER = (*_SHARED, "PRAGMA query_only=ON")

_dumps = functools.partial(json.dumps, default=plain_json, ensure_ascii=False)


def make_writer(path: Path) -> Engine:
    """The engine of the one write thread: each transaction starts with BEGIN IMMEDIATE."""
    engine = create_engine(
        f"sqlite:///{path}", poolclass=QueuePool, pool_size=1, max_overflow=0, json_serializer=_dumps
    )
    _configure(engine, _WRITER, "BEGIN IMMEDIATE")
    return engine


def make_reader(path: Path) -> Engine:
    """The engine of everybody else: connections that refuse to write."""
    engine = create_engine(
        f"sqlite:///{path}", poolclass=QueuePool, pool_size=4, max_overflow=12, json_serializer=_dumps
    )
    _configure(engine, _READER, "BEGIN")
    return engine


def make_migrator(path: Path) -> Engine:
    """The engine of Alembic: foreign keys off, since SQLite tables are rebuilt when they change."""
    engine = create_engine(f"sqlite:///{path}", poolclass=NullPool)
    _configure(
        engine, ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "PRAGMA foreign_keys=OFF"), "BEGIN IMMEDIATE"
    )
    return engine


def _configure(engine: Engine, pragmas: tuple[str, ...], begin: str) -> None:
    @event.listens_for(engine, "connect")
    def _connect(connection: Any, _record: Any) -> None:
        # The driver's own transaction handling would begin late and as a reader.
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in pragmas:
            cursor.execute(pragma)
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(begin)
