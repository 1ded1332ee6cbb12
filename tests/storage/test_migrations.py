"""The schema: what the migrations make is what the models say, from every earlier schema on."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlmodel import SQLModel

from sitrepd.errors import StoreUnusable
from sitrepd.paths import resource_dir
from sitrepd.slices import import_models
from sitrepd.storage import migrations
from sitrepd.storage.engine import make_migrator


def migrate(path: Path, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(resource_dir("migrations")))
    engine = make_migrator(path)
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
    engine.dispose()


def test_migrations_make_what_the_models_say(tmp_path: Path) -> None:
    import_models()
    path = tmp_path / "sitrep.db"
    migrate(path, "head")
    engine = make_migrator(path)
    with engine.connect() as connection:
        differences = compare_metadata(
            MigrationContext.configure(connection, opts={"include_name": migrations.is_ours}), SQLModel.metadata
        )
    engine.dispose()
    assert differences == []


def schema(path: Path) -> dict[str, list[str]]:
    """The words of each table and index; their order depends on how they were made."""
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    return {name: sorted(re.findall(r"[\w.]+", sql)) for name, sql in rows}


def test_a_new_store_has_what_the_migrations_make(tmp_path: Path) -> None:
    new, old = tmp_path / "new.db", tmp_path / "old.db"
    migrations.upgrade(new)
    migrate(old, "head")
    assert schema(new) == schema(old)
    assert migrations.stored_revision(new) == migrations.stored_revision(old)


@pytest.mark.parametrize("revision", migrations.known_revisions())
def test_every_earlier_schema_is_upgraded(tmp_path: Path, revision: str) -> None:
    path = tmp_path / "sitrep.db"
    migrate(path, revision)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("INSERT INTO session (id, at, provenance, observed_at, name, started_at) VALUES "
                   "(1, '2026-01-01', 'told:test', '2026-01-01', 'old', '2026-01-01')")  # fmt: skip
    copy = migrations.upgrade(path)
    assert migrations.stored_revision(path) == migrations.known_revisions()[-1]
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT name FROM session").fetchall() == [("old",)]
    assert (copy is None) == (revision == migrations.known_revisions()[-1])


def test_a_copy_is_whole_and_made_before_the_upgrade(tmp_path: Path) -> None:
    path = tmp_path / "sitrep.db"
    migrations.upgrade(path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("INSERT INTO counter VALUES ('launch', 7)")
    copy = migrations.back_up(path, "backup-0001")
    with closing(sqlite3.connect(copy)) as db:
        assert db.execute("SELECT last FROM counter").fetchall() == [(7,)]
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert list(tmp_path.glob("*.partial")) == []


def test_a_copy_that_cannot_be_made_stops_the_upgrade(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "sitrep.db"
    migrations.upgrade(path)
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(StoreUnusable, match="could not be copied"):
        migrations.back_up(path, "backup-0001")
    assert list(tmp_path.glob("backup*")) == []
