"""Brings a database to the schema of this version, after copying it aside."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

from sitrepd.clock import utc_now
from sitrepd.errors import StoreUnusable
from sitrepd.paths import resource_dir


def known_revisions() -> list[str]:
    """Revisions in order, from the names of the files (`0001_initial.py`): Alembic is slow to import."""
    folder = resource_dir("migrations") / "versions"
    names = sorted(path.name for path in folder.glob("[0-9]*_*.py"))
    return [re.split("_", name, maxsplit=1)[0] for name in names]


def stored_revision(path: Path) -> str | None:
    """The revision of an existing database, None for one without tables; StoreUnusable when it is not one of ours."""
    if not path.exists() or path.stat().st_size == 0:
        return None
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)) as db:
            tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if "alembic_version" not in tables:
                if tables:
                    raise StoreUnusable(
                        f"{path} is an SQLite database, but not one of Sitrep's (its tables: "
                        f"{', '.join(sorted(tables)[:5])}). Nothing was changed. Choose another --data-dir."
                    )
                return None
            row = db.execute("SELECT version_num FROM alembic_version").fetchone()
            return str(row[0]) if row else None
    except sqlite3.DatabaseError as error:
        raise StoreUnusable(_damaged(path, error)) from error


def is_ours(name: str | None, kind: str, _parents: object) -> bool:
    """Whether a table is one of the models', rather than what a database keeps of its own for search."""
    return not (kind == "table" and name is not None and name.startswith("search_text"))


def check(path: Path, thorough_below_bytes: int = 64 << 20) -> None:
    """Raise StoreUnusable when the database is damaged; large files get only the quick look."""
    if not path.exists() or not 0 < path.stat().st_size <= thorough_below_bytes:
        return
    try:
        with closing(sqlite3.connect(path, timeout=10)) as db:
            (answer,) = db.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        raise StoreUnusable(_damaged(path, error)) from error
    if answer != "ok":
        raise StoreUnusable(_damaged(path, answer))


def refuse_emptied(path: Path) -> None:
    """An empty file is a new database to SQLite, and to Sitrep where its store was never used; else something ate it.

    The token is made once the database is; what SQLite has not yet moved over from its log counts as well.
    """
    if not path.exists() or path.stat().st_size > 0 or not path.with_name("token").exists():
        return
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size > 0:
        return
    raise StoreUnusable(
        f"{path} is empty (0 bytes), and this store has been used before: its content was lost. Nothing was changed. "
        "Copy the newest backup-*.db of the same folder there, if there is one, or remove the empty file to begin anew."
    )


def upgrade(path: Path) -> Path | None:
    """Migrate the database at `path`; the copy that was made before, or None where none was needed."""
    refuse_emptied(path)
    known = known_revisions()
    current = stored_revision(path)
    if current == known[-1]:
        return None
    if current is not None and current not in known:
        raise StoreUnusable(
            f"{path} was written by a newer Sitrep (schema {current}; this version knows up to {known[-1]}). "
            "Nothing was changed. Install that version again, or restore a backup-*.db from the same folder."
        )
    if current is None:
        _create(path, known[-1])
        return None
    copy = back_up(path, f"backup-{current}")
    _run_alembic(path)
    return copy


def _create(path: Path, revision: str) -> None:
    """The present schema at once: what the migrations would make, without the time and memory that Alembic takes."""
    from sqlmodel import SQLModel

    from sitrepd.slices import import_models
    from sitrepd.storage.engine import make_migrator

    import_models()
    engine = make_migrator(path)
    try:
        with engine.begin() as connection:
            SQLModel.metadata.create_all(connection)
            connection.exec_driver_sql(
                "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, "
                "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
            )
            connection.exec_driver_sql("INSERT INTO alembic_version VALUES (?)", (revision,))
    finally:
        engine.dispose()


def back_up(path: Path, label: str) -> Path:
    """Copy a database with SQLite's own backup, beside it; the copy is complete or absent."""
    target = path.with_name(f"{label}-{utc_now():%Y%m%dT%H%M%S%f}.db")
    partial = target.with_suffix(".partial")
    try:
        with closing(sqlite3.connect(path, timeout=10)) as source, closing(sqlite3.connect(partial)) as copy:
            source.backup(copy)
        partial.replace(target)
    except (sqlite3.Error, OSError) as error:
        partial.unlink(missing_ok=True)
        raise StoreUnusable(
            f"The database could not be copied to {target.parent} before its upgrade: {error}. Nothing was changed. "
            "Free as much space as the database takes, and make the folder writable."
        ) from error
    return target


def _run_alembic(path: Path) -> None:
    from alembic import command
    from alembic.config import Config

    from sitrepd.storage.engine import make_migrator

    engine = make_migrator(path)
    config = Config()
    config.set_main_option("script_location", str(resource_dir("migrations")))
    try:
        with engine.connect() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    finally:
        engine.dispose()


def _damaged(path: Path, reason: object) -> str:
    return (
        f"{path} is damaged or not an SQLite database ({reason}). Nothing was changed. Move it away to start "
        "anew, or put a backup-*.db from the same folder in its place; `sqlite3 FILE .recover` may save what is in it."
    )
