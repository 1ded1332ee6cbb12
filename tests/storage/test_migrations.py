"""The schema: what the migrations make is what the models say, from every earlier schema on."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlmodel import SQLModel
from tests.daemons import application

from sitrepd.errors import StoreUnusable
from sitrepd.paths import resource_dir
from sitrepd.slices import import_models, load_registry
from sitrepd.storage import migrations
from sitrepd.storage.engine import make_migrator


def migrate(path: Path, revision: str, to: Callable[[Config, str], None] = command.upgrade) -> None:
    config = Config()
    config.set_main_option("script_location", str(resource_dir("migrations")))
    engine = make_migrator(path)
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        to(config, revision)
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


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A store of the present schema with facts of every kind that a session file can hold, and the file of it."""
    folder = tmp_path_factory.mktemp("rich")
    with application(folder) as client:
        for name in ("reference-session.jsonl", "every-kind.jsonl"):
            content = (Path(__file__).parent.parent / "data" / name).read_bytes()
            client.post("/api/v1/import", params={"name": name}, content=content).raise_for_status()
        client.post("/api/v1/sessions/S2/checkpoints").raise_for_status()
        client.post("/api/v1/sessions/S2/resume", json={"to": "agent"}).raise_for_status()
        told = client.get("/api/v1/sessions/S2/export").text
    shutil.copy(folder / "sitrep.db", folder / "points.db")
    migrate(folder / "points.db", "0013", command.downgrade)
    return folder / "sitrep.db", told


def put_back(path: Path, source: Path) -> dict[str, int]:
    """Fill a database of an earlier schema with the rows of a later one, as far as it has room for them."""
    counts = {}
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("ATTACH ? AS later", (str(source),))
        # Points of training runs, which lie elsewhere by now, as they were before.
        db.execute("ATTACH ? AS points", (str(source.with_name("points.db")),))
        tables = "SELECT name FROM main.sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
        for (table,) in db.execute(tables).fetchall():
            if table == "alembic_version" or table.startswith(("sqlite_", "search_")):
                continue
            own = {row[1]: row for row in db.execute(f"PRAGMA main.table_info({table})")}
            later = "points" if table == "training_metric" else "later"
            shared = [row[1] for row in db.execute(f"PRAGMA {later}.table_info({table})") if row[1] in own]
            if not shared:
                continue
            # A column that is gone by now, and may not be empty, gets what any row could have had.
            lost = [name for name, row in own.items() if name not in shared and row[3] and row[4] is None]
            names = ", ".join(f'"{name}"' for name in (*shared, *lost))
            values = ", ".join([*(f'"{name}"' for name in shared), *("''" for _ in lost)])
            db.execute(f"INSERT OR REPLACE INTO main.{table} ({names}) SELECT {values} FROM {later}.{table}")
            counts[table] = db.execute(f"SELECT count(*) FROM main.{table}").fetchone()[0]
    return counts


TABLES = {noun.line_type: str(noun.table.__tablename__) for noun in load_registry().nouns}


@pytest.mark.slow
@pytest.mark.parametrize("revision", migrations.known_revisions())
def test_every_fact_outlives_every_upgrade(tmp_path: Path, rich: tuple[Path, str], revision: str) -> None:
    path = tmp_path / "sitrep.db"
    migrate(path, revision)
    counts = put_back(path, rich[0])
    with closing(sqlite3.connect(path)) as db:
        known = {table: {row[1] for row in db.execute(f"PRAGMA table_info({table})")} for table in counts}
    assert {"session", "launch", "benchmark", "finding", "checkpoint", "delivery", "event"} <= set(counts)
    with application(tmp_path) as client:
        text = client.get("/api/v1/sessions/S2/export").text
        found = client.get("/api/v1/search", params={"q": "okapi"}).json()["data"]
    counts.pop("training_metric", None)
    with closing(sqlite3.connect(path)) as db:
        after = {table: db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in counts}
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
    grown = {"event", "counter", "host", "host_disk", "gpu"}
    assert {table: after[table] for table in counts if table not in grown} == {
        table: count for table, count in counts.items() if table not in grown
    }
    assert _as_then(text, known) == _as_then(rich[1], known)
    assert found


def _as_then(text: str, known: dict[str, set[str]]) -> list[dict[str, Any]]:
    """The lines of a session file, without the kinds and fields that the earlier schema had no place for."""
    lines = []
    for line in map(json.loads, text.splitlines()):
        table = TABLES[line["type"]]
        if table in known:
            later = {name for name in _columns(table) if name not in known[table]}
            lines.append({name: value for name, value in line.items() if name not in later})
    return lines


def _columns(table: str) -> set[str]:
    return {column.name.removesuffix("_id") for column in SQLModel.metadata.tables[table].c} | {
        column.name for column in SQLModel.metadata.tables[table].c
    }


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


def test_samples_of_an_earlier_schema_are_kept(tmp_path: Path) -> None:
    """Times that were text become numbers, and what held the clocks down a mask; nothing is lost."""
    path = tmp_path / "sitrep.db"
    migrate(path, "0008")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("INSERT INTO host (id, at, provenance, observed_at, name, gpus) VALUES "
                   "(7, '2026-01-01', 'observed', '2026-01-01', 'box', '[]')")  # fmt: skip
        db.executemany(
            "INSERT INTO gpu_sample VALUES (7, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (0, "2026-01-02 03:04:05.678901", 97.0, 10**11, 412.345, 61.0, 1980.0, "power cap, thermal (software)"),
                (0, "2026-01-02 03:04:06.000000", None, None, None, None, None, None),
                (3, "2026-01-02 03:04:06.000000", 1.0, 2, 3.5, 4.0, 5.0, "reliability"),
            ],
        )
    migrations.upgrade(path)
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute(
            "SELECT host_id, gpu, at, utilization, memory_used_bytes, power_w, temperature_c, sm_clock_mhz, clock_reasons "
            "FROM gpu_sample ORDER BY gpu, at"
        ).fetchall()
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
    at = 1_767_323_045_679
    assert rows == [
        (7, 0, at, 97.0, 10**11, 412.345, 61.0, 1980.0, 0x24),
        (7, 0, at + 321, None, None, None, None, None, 0),
        (7, 3, at + 321, 1.0, 2, 3.5, 4.0, 5.0, 0x400),
    ]


def test_points_of_an_earlier_schema_are_kept(tmp_path: Path) -> None:
    """A row a value becomes a column a metric; each comes back as it was told, and the way back is open."""
    path = tmp_path / "sitrep.db"
    migrate(path, "0013")
    rows = [
        (1, 0, None, 10, "loss", "2.50", "nats", "lower"),
        (1, 0, None, 10, "acc", "0.10", None, "higher"),
        (1, 1, None, 20, "loss", "2.1", "nats", "lower"),
        (1, 1, None, 20, "acc", "0.2", None, "higher"),
        (2, 0, "1.50", None, "loss", "1e-05", None, None),
        (1, 2, "3", 30, "acc", "0.3", None, "higher"),
    ]
    query = (
        "SELECT training_id, point, epoch, step, name, text, unit, better FROM training_metric ORDER BY training_id, id"
    )
    with closing(sqlite3.connect(path)) as db, db:
        for number in (1, 2):
            db.execute("INSERT INTO training (id, at, provenance, observed_at) VALUES (?, '2026-01-01', 'told', '2026-01-01')",
                       (number,))  # fmt: skip
        db.executemany(
            "INSERT INTO training_metric (training_id, point, epoch, step, name, text, unit, better, value) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)",
            rows,
        )
        before = db.execute(query).fetchall()
    migrations.upgrade(path)
    with closing(sqlite3.connect(path)) as db:
        told = db.execute(
            "SELECT training_id, steps, epochs, metrics, units FROM training_batch ORDER BY id"
        ).fetchall()
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
    assert [(row[0], *map(json.loads, row[1:])) for row in told] == [
        (1, [10, 20], [None, None], {"loss": ["2.50", "2.1"], "acc": ["0.10", "0.2"]},
         {"loss": ["nats", "lower"], "acc": [None, "higher"]}),
        (1, [30], ["3"], {"acc": ["0.3"]}, {"acc": [None, "higher"]}),
        (2, [None], ["1.50"], {"loss": ["1e-05"]}, {}),
    ]  # fmt: skip
    migrate(path, "0013", command.downgrade)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute(query).fetchall() == before
