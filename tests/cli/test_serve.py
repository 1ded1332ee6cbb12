"""`sitrep serve`: starts, says why it cannot, ends."""

from __future__ import annotations

import json
import signal
import socket
from pathlib import Path

import pytest
from tests.cli.running import Sitrep
from tests.helpers import PATIENCE_S, free_port, wait_until


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_a_signal_ends_it(sitrep: Sitrep, signum: int) -> None:
    port = free_port()
    process = sitrep.start("serve", "--port", str(port))
    wait_until(lambda: sitrep.daemon_pid() == process.pid)
    assert sitrep("session", "list", "--json").json["count"] == 0
    process.send_signal(signum)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    assert f"at http://127.0.0.1:{port}; `sitrep open`" in err
    assert not (sitrep.store / "sitrep.sock").exists()
    assert not (sitrep.store / "daemon.json").exists()


@pytest.mark.slow
def test_a_second_one_is_refused(sitrep: Sitrep) -> None:
    sitrep("session", "list").ok()
    said = sitrep("serve", "--port", "0").refused()
    assert said.startswith(f"Error: Another Sitrep daemon (pid {sitrep.daemon_pid()}) already serves {sitrep.store}.")
    assert json.loads(sitrep("serve", "--port", "0", "--json").refused())["title"]


def test_a_port_in_use(sitrep: Sitrep) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        said = sitrep("serve", "--port", str(other.getsockname()[1])).refused()
    assert "cannot be listened on: Address already in use. Choose another port with --port" in said


@pytest.mark.slow
def test_settings_that_are_wrong(sitrep: Sitrep, tmp_path: Path) -> None:
    assert "SITREP_IDLE_AFTER_S" in sitrep("serve", env={"SITREP_IDLE_AFTER_S": "soon"}).refused()
    assert "can be reached from elsewhere" in sitrep("serve", "--host", "0.0.0.0").refused()
    assert "'--port'" in sitrep("serve", "--port", "high").refused(2)
    assert "SITREP_PORT" in sitrep("serve", "--port", "70000").refused()
    no_file = {"SITREP_TLS_CERTFILE": str(tmp_path / "no.pem"), "SITREP_PORT": "0"}
    assert sitrep("serve", env=no_file).refused().startswith("Error: The daemon cannot start: ")
    assert not (sitrep.store / "daemon.json").exists()


def test_settings_say_where_they_come_from(sitrep: Sitrep, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("idle_after_s = 12\nidle_after = 3\n")
    env = {"SITREP_CONFIG": str(tmp_path / "config.toml"), "SITREP_PORT": "0"}
    found = {one["name"]: one for one in sitrep("settings", "--json", env=env).json}
    assert (found["idle_after_s"]["value"], found["idle_after_s"]["source"]) == (12, "file")
    assert (found["port"]["value"], found["port"]["source"], found["port"]["env"]) == (0, "environment", "SITREP_PORT")
    assert (found["host"]["value"], found["host"]["source"]) == ("127.0.0.1", "default")
    said = sitrep("settings", "--data-dir", str(tmp_path / "x"), env=env).ok()
    assert "idle_after in that file is no setting" in said.err
    assert f"{tmp_path / 'x'}" in next(line for line in said.out.splitlines() if line.startswith("data_dir"))
