"""Many rows of one table at once, without an object or a mapping for each of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Table
from sqlmodel import Session


def insert_rows(db: Session, table: Table, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert rows whose values stand in the order of `columns`, as the database takes them: numbers and text."""
    if not rows:
        return
    connection = db.connection()
    compiled = table.insert().compile(dialect=connection.dialect, column_keys=list(columns))
    if compiled.positiontup is None:
        connection.execute(table.insert(), [dict(zip(columns, row, strict=True)) for row in rows])
        return
    place = {name: at for at, name in enumerate(columns)}
    order = [place[name] for name in compiled.positiontup]
    told = rows if order == sorted(order) else [tuple(row[at] for at in order) for row in rows]
    connection.exec_driver_sql(str(compiled), list(told))
