"""Launches restarted and cloned by a real daemon: with changed flags, with their secrets, without losing a log."""

from __future__ import annotations

import shlex
import socket
import sys
from pathlib import Path

import psutil
import pytest
from tests.daemons import Daemon
from tests.helpers import free_port, lives
from tests.launches.repeat.conftest import SECRET, caller_env, get, line, start, until

pytestmark = pytest.mark.slow  # each test starts daemons of its own

WAITS = "import os, sys, time; print('up', sys.argv[1:], os.environ.get('MARK'), flush=True); time.sleep(300)"


def test_a_server_is_restarted_with_changed_flags_on_its_own_port(daemon: Daemon, tmp_path: Path) -> None:
    daemon.client.post("/api/v1/sessions", json={"name": "s"})
    port, log = free_port(), tmp_path / "serve.log"
    start(daemon, name="three", command=line(port, log), cwd=str(tmp_path), env={"MARK": "1"})
    before = until(daemon, "L1", "ready")
    told = {"set": {"speculative-num-steps": 2}, "unset": ["speculative-num-draft-tokens"], "env": {"NCCL_PROTO": "X"}}
    answer = daemon.client.post("/api/v1/launches/L1/restart", json=told | {"grace_s": 5})
    assert answer.status_code == 201, answer.text
    assert answer.headers["location"] == "/api/v1/launches/L2"
    second = answer.json()
    assert (second["id"], second["from_launch"], second["session"], second["port"]) == ("L2", "L1", "S1", port)
    assert "name" not in second
    wanted = before["command"].replace("--speculative-num-draft-tokens 6 ", "").replace("steps 3", "steps 2")
    assert second["command"] == wanted.replace("=LL", "=X")
    first = get(daemon, "launches/L1")
    assert (first["state"], first["log_path"]) == ("exited", str(tmp_path / "serve.L1.log"))
    assert "fired up" in Path(first["log_path"]).read_text()
    assert not lives(before["pid"])
    second = until(daemon, "L2", "ready")
    assert second["settings"]["speculative_num_steps"] == 2
    environ = psutil.Process(second["pid"]).environ()
    assert (environ["NCCL_PROTO"], environ["MARK"]) == ("X", "1")
    assert second["env"] == {"MARK": "1"}


def test_what_cannot_be_started_is_refused_before_anything_is_stopped(daemon: Daemon, tmp_path: Path) -> None:
    start(daemon, argv=[sys.executable, "-c", WAITS, "--x", "1"], cwd=str(tmp_path), ready_pattern="up")
    until(daemon, "L1", "ready")
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        answer = daemon.client.post("/api/v1/launches/L1/restart", json={"set": {"port": taken}})
        assert answer.status_code == 409
        assert f"Port {taken} is taken" in answer.json()["detail"]
    for told, why in (
        ({"unset": ["y"]}, "no --y to leave out"),
        ({"set": {"": 1}}, "no flag"),
        ({"set": {"x": False}}, "left out by `unset`"),
        ({"set": {"env:A": "1"}}, "no name of a flag"),
        ({"set": {"host": "192.0.2.7"}}, "nothing was stopped"),
    ):
        answer = daemon.client.post("/api/v1/launches/L1/restart", json=told)
        assert answer.status_code == 422, answer.text
        assert why in answer.json()["detail"]
    assert get(daemon, "launches/L1")["state"] == "ready"
    assert daemon.client.post("/api/v1/launches/L7/clone", json={}).status_code == 404


def test_a_clone_runs_beside_the_first_with_the_secret_of_whoever_asks(daemon: Daemon, tmp_path: Path) -> None:
    argv = [sys.executable, "-c", WAITS, "--api-key", SECRET, "--x", "1"]
    env = caller_env(HF_TOKEN="hf_" + "a1B2" * 8, MARK="first")
    start(daemon, argv=argv, cwd=str(tmp_path), env=env, inherit_env=False, told_env=["MARK"], ready_pattern="up")
    first = until(daemon, "L1", "ready")
    assert first["env"] == {"MARK": "first"}
    stored = "".join(path.read_text(errors="replace") for path in (daemon.data_dir / "launches" / "L1").glob("*.json"))
    assert SECRET not in stored
    assert env["HF_TOKEN"] not in stored
    refused = daemon.client.post("/api/v1/launches/L1/clone", json={"caller_env": caller_env()})
    assert refused.status_code == 422
    assert "secret API_KEY, which is not stored" in refused.json()["detail"]
    told = {
        "caller_env": caller_env(API_KEY="other-key-1234567890"),
        "set": {"x": 2},
        "env": {"MARK": "second"},
        "name": "n",
    }
    answer = daemon.client.post("/api/v1/launches/L1/clone", json=told)
    assert answer.status_code == 201, answer.text
    clone = until(daemon, answer.json()["id"], "ready")
    assert (clone["name"], clone["env"], clone["argv"][-4:]) == (
        "n",
        {"MARK": "second"},
        ["--api-key", "${API_KEY}", "--x", "2"],
    )
    process = psutil.Process(clone["pid"])
    assert process.cmdline()[-4:] == ["--api-key", "other-key-1234567890", "--x", "2"]
    assert process.environ()["MARK"] == "second"
    assert "HF_TOKEN" not in process.environ()
    assert any("HF_TOKEN" in warning for warning in clone["warnings"])
    assert get(daemon, "launches/L1")["state"] == "ready"


def test_a_secret_of_a_shell_line_is_expanded_where_it_stood(daemon: Daemon, tmp_path: Path) -> None:
    script = shlex.quote(WAITS)
    command = f"MARK=x nohup {shlex.quote(sys.executable)} -c {script} --api-key '{SECRET}' > {tmp_path}/a.log 2>&1 &"
    start(daemon, command=command, cwd=str(tmp_path), ready_pattern="up")
    until(daemon, "L1", "ready")
    again = {"caller_env": caller_env(API_KEY="a b$c-0123456789"), "log_path": str(tmp_path / "b.log")}
    answer = daemon.client.post("/api/v1/launches/L1/clone", json=again)
    assert answer.status_code == 201, answer.text
    clone = until(daemon, answer.json()["id"], "ready")
    assert psutil.Process(clone["pid"]).cmdline()[-2:] == ["--api-key", "a b$c-0123456789"]
    assert clone["log_path"] == str(tmp_path / "b.log")
    assert SECRET not in clone["command"]
    third = daemon.client.post("/api/v1/launches/L2/clone", json=again | {"caller_env": caller_env()})
    assert "secret API_KEY" in third.json()["detail"]


def test_a_log_that_a_living_server_writes_is_not_emptied(daemon: Daemon, tmp_path: Path) -> None:
    command = f"{shlex.quote(sys.executable)} -c {shlex.quote(WAITS)} > {tmp_path}/a.log 2>&1 &"
    start(daemon, command=command, cwd=str(tmp_path), ready_pattern="up")
    until(daemon, "L1", "ready")
    answer = daemon.client.post("/api/v1/launches/L1/clone", json={})
    assert answer.status_code == 409
    assert "still writes to" in answer.json()["detail"]
    assert "up" in (tmp_path / "a.log").read_text()


def test_two_living_servers_never_write_to_one_log(daemon: Daemon, tmp_path: Path) -> None:
    """Neither a clone, nor another start by its flag or by its shell line: each line would count for both."""
    log = tmp_path / "a.log"
    told = {"argv": [sys.executable, "-c", WAITS, "--x", "1"], "cwd": str(tmp_path), "ready_pattern": "up"}
    start(daemon, **told, log_path=str(log))
    until(daemon, "L1", "ready")
    answer = daemon.client.post("/api/v1/launches/L1/clone", json={"set": {"x": 2}})
    assert answer.status_code == 201, answer.text
    clone = until(daemon, "L2", "ready")
    assert clone["log_path"] != str(log)
    assert any(f"L1 still writes to {log}" in warning for warning in clone["warnings"])
    line = f"{shlex.quote(sys.executable)} -c {shlex.quote(WAITS)} >> ./a.log 2>&1 &"
    shell = {"command": line, "cwd": str(tmp_path), "ready_pattern": "up"}
    for again in (told | {"log_path": str(log)}, shell, shell | {"command": line.replace(">>", ">")}):
        refused = daemon.client.post("/api/v1/launches", json=again)
        assert (refused.status_code, refused.json().get("launch")) == (409, "L1"), refused.text
    assert log.read_text().count("up") == 1
    restarted = daemon.client.post("/api/v1/launches/L1/restart", json={"set": {"x": 3}, "grace_s": 5})
    assert (restarted.status_code, restarted.json()["log_path"]) == (201, str(log)), restarted.text


@pytest.mark.parametrize("told", [{"state": "ready", "command": "python -m s"}, {"state": "ready"}])
def test_what_was_only_told_is_not_taken_for_a_process(daemon: Daemon, told: dict[str, str]) -> None:
    start(daemon, start=False, **told)
    answer = daemon.client.post("/api/v1/launches/L1/restart", json={})
    assert answer.status_code in (409, 422), answer.text
    assert len(get(daemon, "launches")["data"]) == 1
