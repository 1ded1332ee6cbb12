"""Alembic's entry: the daemon hands over a connection; `alembic` on the command line makes one itself."""

from __future__ import annotations

import os
from pathlib import Path

from alembic import context
from sqlalchemy import Connection
from sqlmodel import SQLModel

from sitrepd.slices import import_models
from sitrepd.storage.engine import make_migrator
from sitrepd.storage.migrations import is_ours

import_models()


def run(connection: Connection) -> None:
    """Migrate in one transaction a revision; batch mode, since SQLite cannot alter a column in place."""
    context.configure(
        connection=connection,
        target_metadata=SQLModel.metadata,
        render_as_batch=connection.dialect.name == "sqlite",
        transaction_per_migration=True,
        compare_type=True,
        include_name=is_ours,
    )
    with context.begin_transaction():
        context.run_migrations()


handed_over = context.config.attributes.get("connection")
if handed_over is not None:
    run(handed_over)
else:
    with make_migrator(Path(os.environ["SITREP_DATABASE"])).connect() as own:
        run(own)
