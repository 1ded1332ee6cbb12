"""The store's folder: lock, token, and what it says when it cannot be used."""

from __future__ import annotations

import errno
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from tests.daemons import Daemon, running_daemon
from tests.helpers import PATIENCE_S

from sitrepd.errors import StoreUnusable
from sitrepd.settings import Settings, load_settings
from sitrepd.storage import filesystem, migrations
from sitrepd.storage.store import Store, load_token


def settings(folder: Path) -> Settings:
    return load_settings(data_dir=folder, port=0)


def test_a_store_is_private(tmp_path: Path) -> None:
    store = Store(settings(tmp_path / "store"))
    store.close()
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "store").iterdir()}
    assert modes["token"] == 0o600
    assert (tmp_path / "store").stat().st_mode & 0o777 == 0o700


def test_one_daemon_per_store(tmp_path: Path) -> None:
    first = Store(settings(tmp_path))
    with pytest.raises(StoreUnusable, match=rf"pid {os.getpid()}\) already serves"):
        Store(settings(tmp_path))
    first.close()
    Store(settings(tmp_path)).close()


@pytest.mark.slow
def test_a_killed_daemon_leaves_no_lock(tmp_path: Path) -> None:
    with running_daemon(tmp_path / "store") as daemon:
        daemon.restart(signal.SIGKILL)
        assert daemon.client.get("/api/v1/health").json() == {"status": "ok"}


def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    with running_daemon(tmp_path / "store") as daemon:
        daemon.client.post("/api/v1/sessions", json={"name": "kept"}).raise_for_status()
        for number in range(20):
            daemon.client.post("/api/v1/directives", json={"text": f"wish {number}"}).raise_for_status()
        daemon.restart(signal.SIGKILL)
        assert daemon.client.get("/api/v1/directives").json()["count"] == 20


def test_commits_are_synced(tmp_path: Path) -> None:
    """A power cut loses what was not synced: FULL syncs the log at each commit."""
    store = Store(settings(tmp_path))
    level = store.write(lambda db: db.connection().exec_driver_sql("PRAGMA synchronous").scalar())
    mode = store.write(lambda db: db.connection().exec_driver_sql("PRAGMA journal_mode").scalar())
    store.close()
    assert (level, mode) == (2, "wal")


def test_readers_cannot_write(tmp_path: Path) -> None:
    store = Store(settings(tmp_path))
    with pytest.raises(StoreUnusable, match="read-only"):
        insert_while_reading(store)
    store.close()


def insert_while_reading(store: Store) -> None:
    with store.read() as db:
        db.connection().exec_driver_sql("INSERT INTO counter VALUES ('x', 1)")


def test_a_newer_database_is_left_alone(tmp_path: Path) -> None:
    Store(settings(tmp_path)).close()
    with sqlite3.connect(tmp_path / "sitrep.db") as db:
        db.execute("UPDATE alembic_version SET version_num = '9999'")
    db.close()
    before = (tmp_path / "sitrep.db").read_bytes()
    with pytest.raises(StoreUnusable, match=r"written by a newer Sitrep .schema 9999"):
        Store(settings(tmp_path))
    assert (tmp_path / "sitrep.db").read_bytes() == before


@pytest.mark.parametrize(
    "content", [b"this is no database, but it is long enough to be one" * 50, b"SQLite format 3\0junk"]
)
def test_a_corrupt_file_is_left_alone(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "sitrep.db").write_bytes(content)
    with pytest.raises(StoreUnusable, match="damaged or not an SQLite database"):
        Store(settings(tmp_path))
    assert (tmp_path / "sitrep.db").read_bytes() == content


def test_an_empty_file_is_a_new_store_unless_the_store_was_used(tmp_path: Path) -> None:
    (tmp_path / "sitrep.db").touch()
    Store(settings(tmp_path)).close()
    assert (tmp_path / "sitrep.db").stat().st_size > 0
    for name in ("sitrep.db", "sitrep.db-wal"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(StoreUnusable, match=r"sitrep\.db is empty .* its content was lost\. Nothing was changed"):
        Store(settings(tmp_path))
    assert (tmp_path / "sitrep.db").stat().st_size == 0
    (tmp_path / "sitrep.db").unlink()
    Store(settings(tmp_path)).close()


def test_a_damaged_page_is_noticed_at_start(tmp_path: Path) -> None:
    Store(settings(tmp_path)).close()
    data = bytearray((tmp_path / "sitrep.db").read_bytes())
    data[4096 * 3 : 4096 * 3 + 2000] = os.urandom(2000)
    (tmp_path / "sitrep.db").write_bytes(data)
    with pytest.raises(StoreUnusable, match="damaged"):
        Store(settings(tmp_path))


def test_somebody_elses_database_is_left_alone(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "sitrep.db") as db:
        db.execute("CREATE TABLE runs (id INTEGER)")
    db.close()
    with pytest.raises(StoreUnusable, match=r"not one of Sitrep's .its tables: runs"):
        Store(settings(tmp_path))


def test_a_path_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnusable, match="cannot be used"):
        Store(settings(tmp_path / "file" / "store"))


def test_the_token_is_kept_and_closed_to_others(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = load_token(path)
    path.chmod(0o644)
    assert load_token(path) == token
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_token_that_finds_no_room_asks_for_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(StoreUnusable, match=r"No space left on device\. Free some space"):
        load_token(tmp_path / "token")


def test_a_network_file_system_is_recognised() -> None:
    mountinfo = (
        "22 1 0:21 / / rw - ext4 /dev/sda rw\n"
        "30 22 0:40 / /home rw - nfs4 server:/home rw\n"
        "31 22 0:41 / /home/me/my\\040disk rw - xfs /dev/sdb rw\n"
    )
    assert filesystem.mount_of(Path("/home/me/.local"), mountinfo) == ("/home", "nfs4")
    assert filesystem.mount_of(Path("/home/me/my disk/x"), mountinfo) == ("/home/me/my disk", "xfs")
    assert filesystem.mount_of(Path("/homework"), mountinfo) == ("/", "ext4")


def test_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sitrepd.storage.store.is_network_path", lambda _path: True)
    with pytest.raises(StoreUnusable, match="SITREP_ALLOW_NETWORK_FILESYSTEM=true"):
        Store(settings(tmp_path / "store"))
    assert not (tmp_path / "store").exists()
    Store(load_settings(data_dir=tmp_path / "store", allow_network_filesystem=True)).close()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system of 1 MB needs root")
def test_a_full_disk_is_told_and_survived(tmp_path: Path) -> None:
    """In a mount namespace of its own: a store on 2 MB, filled up, then freed again."""
    script = f"""
import sys, pathlib, subprocess
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
folder = pathlib.Path({str(tmp_path)!r}) / "small"
folder.mkdir()
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], check=True)
from sitrepd.errors import StoreUnusable
from sitrepd.settings import load_settings
from sitrepd.storage.base import Counter
from sitrepd.storage.store import Store
store = Store(load_settings(data_dir=folder, port=0))
filler = folder / "filler"
try:
    with filler.open("wb") as file:
        while True:
            file.write(b"x" * 4096)
            file.flush()
except OSError:
    pass
def job(db):
    db.add(Counter(word="x" * 300000, last=1))
try:
    store.write(job)
except StoreUnusable as error:
    print(error.detail)
filler.unlink()
store.write(job)
store.close()
print("stored")
"""
    command = ["unshare", "-m", sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].startswith("The disk of the store is full: nothing was stored.")
    assert done.stdout.splitlines()[1] == "stored"


def test_a_daemon_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "sitrep.db").write_bytes(b"junk " * 2000)
    with pytest.raises(AssertionError, match="damaged or not an SQLite database"):
        Daemon(tmp_path).start()


def test_the_folder_of_migrations_is_in_order() -> None:
    assert migrations.known_revisions() == sorted(migrations.known_revisions())
