"""A daemon is started where none runs: once, on its own, and with a word."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
from functools import partial
from pathlib import Path

import pytest
from tests.cli.running import Sitrep
from tests.helpers import PATIENCE_S, lives, wait_until

pytestmark = pytest.mark.slow  # each test starts daemons of its own


def test_the_first_call_starts_a_daemon_and_says_so(sitrep: Sitrep) -> None:
    done = sitrep("session", "open", "one", "--json")
    assert done.json["id"] == "S1"
    pid = sitrep.daemon_pid()
    assert re.fullmatch(rf"Started the Sitrep daemon \(pid {pid}\) for {sitrep.store} at http://\S+\.\n", done.err)
    second = sitrep("session", "list").ok()
    assert (second.err, sitrep.daemon_pid()) == ("", pid)


def test_callers_at_the_same_time_start_one(sitrep: Sitrep) -> None:
    calls = [sitrep.start("session", "list", "--json") for _ in range(5)]
    said = [call.communicate(timeout=PATIENCE_S) for call in calls]
    assert [call.returncode for call in calls] == [0] * 5, said
    assert [json.loads(out)["count"] for out, _ in said] == [0] * 5
    assert len([err for _, err in said if err]) == 1, "one has started it, and one says so"
    assert (sitrep.store / "daemon.log").read_text().count("serves") == 1


def test_it_is_no_child_of_the_caller_and_takes_nothing_along(sitrep: Sitrep) -> None:
    read, write = os.pipe()
    process = sitrep.start("status", pass_fds=(write,))
    process.communicate(timeout=PATIENCE_S)
    process = sitrep.start("session", "list", pass_fds=(write,))
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, out + err
    os.close(write)
    assert os.read(read, 1) == b"", "the daemon holds the caller's pipe"
    os.close(read)
    pid = sitrep.daemon_pid()
    assert os.getsid(pid) == pid
    assert os.readlink(f"/proc/{pid}/fd/0") == "/dev/null"
    assert os.readlink(f"/proc/{pid}/fd/2") == str(sitrep.store / "daemon.log")
    assert os.readlink(f"/proc/{pid}/cwd") == str(sitrep.store)


def test_what_concerns_the_caller_stays_with_it(sitrep: Sitrep) -> None:
    sitrep("session", "list", env={"SITREP_SESSION": "S7", "SITREP_IDLE_AFTER_S": "5"}).ok()
    environment = Path(f"/proc/{sitrep.daemon_pid()}/environ").read_bytes().split(b"\0")
    assert b"SITREP_IDLE_AFTER_S=5" in environment
    assert not [name for name in environment if name.startswith(b"SITREP_SESSION")]


def test_a_killed_daemon_is_replaced(sitrep: Sitrep) -> None:
    sitrep("session", "open", "one").ok()
    first = sitrep.daemon_pid()
    assert first is not None
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: not lives(first))
    done = sitrep("session", "list", "--json")
    assert done.json["count"] == 1
    assert "Started" in done.err
    assert sitrep.daemon_pid() != first


def _another(sitrep: Sitrep, pid: int) -> bool:
    assert sitrep("session", "list", "--json").json["count"] == 1
    return sitrep.daemon_pid() not in (None, pid)


def test_a_daemon_that_is_ending_is_waited_for(sitrep: Sitrep) -> None:
    """It holds the store until it is gone; the caller's own daemon then takes its place."""
    sitrep("session", "open", "one").ok()
    for _ in range(2):
        pid = sitrep.daemon_pid()
        assert pid is not None
        os.kill(pid, signal.SIGTERM)
        # The one that is ending may still answer; whoever comes too late for that has another one.
        wait_until(partial(_another, sitrep, pid), PATIENCE_S)


def test_shutdown_ends_it(sitrep: Sitrep) -> None:
    sitrep("session", "list").ok()
    pid = sitrep.daemon_pid()
    assert sitrep("shutdown").ok().out == f"The daemon (pid {pid}) has ended.\n"
    assert not lives(pid or 0)
    assert not (sitrep.store / "sitrep.sock").exists()
    assert "No daemon runs" in sitrep("shutdown").refused(3)


def test_a_taken_default_port_is_no_hindrance(sitrep: Sitrep) -> None:
    with socket.socket() as other:
        try:
            other.bind(("127.0.0.1", 8791))
            other.listen()
        except OSError:
            pass  # Somebody else has it: as good.
        sitrep("session", "list").ok()
        url = json.loads((sitrep.store / "daemon.json").read_text())["url"]
    assert not url.endswith(":8791")


def test_a_port_that_was_chosen_and_is_taken_is_an_error(sitrep: Sitrep) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        said = sitrep("session", "list", env={"SITREP_PORT": str(port)}).refused(3)
    assert f"The daemon did not start: 127.0.0.1:{port} cannot be listened on" in said


def test_why_it_did_not_start(sitrep: Sitrep, tmp_path: Path) -> None:
    sitrep.store.mkdir()
    (sitrep.store / "sitrep.db").write_bytes(b"this is no database, it is a letter to my aunt" * 100)
    said = sitrep("session", "list").refused(3)
    assert said.startswith("Error: The daemon did not start: ")
    assert "sitrep.db" in said
    assert (sitrep.store / "sitrep.db").read_bytes().startswith(b"this is no database")
    (tmp_path / "file").write_text("")
    said = sitrep("session", "list", "--data-dir", str(tmp_path / "file")).refused(3)
    assert f"No daemon runs for {tmp_path / 'file'}, and none can be started there" in said
    said = sitrep("session", "list", "--data-dir", "/proc/none").refused(3)
    assert "--data-dir" in said


def test_a_store_may_have_any_path(tmp_path: Path) -> None:
    store = tmp_path / ("deep " * 20).strip() / ("ü" * 60) / "store"
    sitrep = Sitrep(store, tmp_path)
    try:
        assert sitrep("session", "open", "one", "--json").json["id"] == "S1"
    finally:
        sitrep.end_daemon()


def test_the_settings_file_names_the_store(sitrep: Sitrep, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(f'data_dir = "{sitrep.store}"\n')
    env = {"SITREP_DATA_DIR": "", "SITREP_CONFIG": str(tmp_path / "config.toml")}
    sitrep("session", "open", "one", env=env).ok()
    assert sitrep("session", "show", "--json").json["name"] == "one"
    (tmp_path / "config.toml").write_text("data_dir = [")
    assert "config.toml cannot be read" in sitrep("session", env=env).refused()
