"""Launches through a real daemon: started, followed, stopped, and taken up again after the daemon was killed."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.daemons import Daemon
from tests.helpers import all_ended, free_port, lives, wait_until
from tests.launches.reading import EAGLE_PHASES as PHASES

REPLAY = f"{shlex.quote(sys.executable)} -m sitrepd.demo.replay"


def command(port: int, log: Path, seconds: float, *more: str) -> str:
    flags = " ".join(more)
    return (
        f"NCCL_PROTO=LL nohup {REPLAY} --duration {seconds} {flags} -m sglang.launch_server --model-path /models/kimi "
        f"--tp-size 8 --port {port} --speculative-algorithm EAGLE3 --speculative-num-steps 3 > {log} 2>&1 &"
    )


def start(daemon: Daemon, **body: Any) -> dict[str, Any]:
    answer = daemon.client.post("/api/v1/launches", json=body)
    assert answer.status_code == 201, answer.text
    launch: dict[str, Any] = answer.json()
    return launch


def get(daemon: Daemon, number: str) -> dict[str, Any]:
    launch: dict[str, Any] = daemon.client.get(f"/api/v1/launches/{number}").json()
    return launch


def until(daemon: Daemon, number: str, *states: str) -> dict[str, Any]:
    def reached() -> dict[str, Any] | None:
        launch = get(daemon, number)
        return launch if launch["state"] in states else None

    found = wait_until(reached, interval_s=0.05)
    assert found is not None
    return found


def test_a_start_is_followed_from_exec_to_ready(daemon: Daemon, tmp_path: Path) -> None:
    daemon.client.post("/api/v1/sessions", json={"name": "s"})
    log, port = tmp_path / "server.log", free_port()
    launch = start(daemon, command=command(port, log, 3), cwd=str(tmp_path), name="replay")
    assert (launch["id"], launch["session"], launch["state"], launch["engine"]) == ("L1", "S1", "starting", "sglang")
    assert (launch["log_path"], launch["port"], launch["model"]) == (str(log), port, "/models/kimi")
    seen = set()

    def ready() -> bool:
        moment = daemon.client.get("/api/v1/launches/L1/live").json()
        seen.add((moment["state"], moment.get("phase")))
        return moment["state"] == "ready"

    wait_until(ready, interval_s=0.02)
    launch = get(daemon, "L1")
    assert [phase["name"] for phase in launch["phases"]] == PHASES
    assert all("ended_at" in phase for phase in launch["phases"])
    loaded = next(phase for phase in launch["phases"] if phase["name"] == "load_weights")
    assert (loaded["done"], loaded["total"], loaded["unit"], loaded["progress"]) == (64, 64, "shards", 1.0)
    assert launch["settings"]["speculative_num_steps"] == 3
    assert {size["name"] for size in launch["sizes"]} >= {"weight_bytes", "kv_tokens"}
    assert {state for state, _ in seen} >= {"loading", "ready"}
    assert psutil.Process(launch["pid"]).environ()["NCCL_PROTO"] == "LL"
    with socket.create_connection(("127.0.0.1", port), 5):
        pass
    kinds = [event["kind"] for event in daemon.client.get("/api/v1/events").json() if event["subject"] == "L1"]
    assert kinds[0] == "launch.created"


def test_ready_is_never_said_before_the_port_answers(daemon: Daemon, tmp_path: Path) -> None:
    port = free_port()
    start(daemon, command=command(port, tmp_path / "log", 2), cwd=str(tmp_path))

    def looked() -> bool:
        ready = get(daemon, "L1")["state"] == "ready"
        if ready:
            socket.create_connection(("127.0.0.1", port), 5).close()
        return ready

    wait_until(looked, interval_s=0.01)


@pytest.mark.slow
def test_a_server_is_stopped_the_way_sglang_wants(daemon: Daemon, tmp_path: Path) -> None:
    log = tmp_path / "log"
    start(daemon, command=command(free_port(), log, 1), cwd=str(tmp_path))
    pid = until(daemon, "L1", "ready")["pid"]
    answer = daemon.client.post("/api/v1/launches/L1/stop", json={"wait_s": 20})
    assert answer.status_code == 202
    launch = answer.json()
    assert (launch["state"], launch["exit_code"]) == ("exited", 0)
    assert "failure" not in launch
    assert "Gracefully exiting" in log.read_text()
    assert not lives(pid)
    assert daemon.client.post("/api/v1/launches/L1/stop").status_code == 409


def test_a_server_that_ignores_the_signal_is_killed_with_its_children(daemon: Daemon, tmp_path: Path) -> None:
    script = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = os.fork()\n"
        "print('up', os.getpid(), flush=True)\n"
        "time.sleep(300)\n"
    )
    start(daemon, argv=[sys.executable, "-c", script], cwd=str(tmp_path), ready_pattern="up")
    launch = until(daemon, "L1", "ready")
    tree = [child.pid for child in psutil.Process(launch["pid"]).children()] + [launch["pid"]]
    assert len(tree) == 2
    launch = daemon.client.post("/api/v1/launches/L1/stop", json={"grace_s": 0.2, "wait_s": 20}).json()
    assert (launch["state"], launch["exit_signal"]) == ("exited", 9)
    wait_until(lambda: all_ended(*tree))


def test_a_failed_start_says_why(daemon: Daemon, tmp_path: Path) -> None:
    start(daemon, command=command(free_port(), tmp_path / "log", 1, "--fail oom"), cwd=str(tmp_path))
    launch = until(daemon, "L1", "failed")
    assert launch["exit_signal"] == 9
    assert "out of memory" in launch["failure"].lower()


@pytest.mark.slow
def test_a_killed_daemon_loses_neither_the_server_nor_its_log(daemon: Daemon, tmp_path: Path) -> None:
    start(daemon, command=command(free_port(), tmp_path / "log", 4), cwd=str(tmp_path))
    pid = until(daemon, "L1", "loading")["pid"]
    daemon.restart(signal.SIGKILL)
    assert lives(pid)
    launch = until(daemon, "L1", "ready")
    assert launch["pid"] == pid
    assert [phase["name"] for phase in launch["phases"]] == PHASES
    events = [event for event in daemon.client.get("/api/v1/events").json() if event["subject"] == "L1"]
    begun = [event["data"]["phase"] for event in events if "phase" in event["data"]]
    assert len(begun) == len(set(begun))


@pytest.mark.slow
def test_how_it_ended_is_learned_by_the_next_daemon(daemon: Daemon, tmp_path: Path) -> None:
    start(daemon, argv=[sys.executable, "-c", "import sys, time; time.sleep(1); sys.exit(7)"], cwd=str(tmp_path))
    pid = get(daemon, "L1")["pid"]
    daemon.end(signal.SIGKILL)
    wait_until(lambda: not lives(pid))
    daemon.start()
    launch = until(daemon, "L1", "failed")
    assert (launch["exit_code"], launch["failure"]) == (
        7,
        "The process ended with exit code 7; its log gives no cause.",
    )


@pytest.mark.slow
def test_a_launch_that_no_daemon_has_stored_is_found(daemon: Daemon, tmp_path: Path) -> None:
    """The daemon was killed after the process started and before the row was committed."""
    start(daemon, argv=[sys.executable, "-c", "import time; time.sleep(60)"], cwd=str(tmp_path), name="lost")
    pid = get(daemon, "L1")["pid"]
    daemon.end(signal.SIGKILL)
    import sqlite3

    with sqlite3.connect(daemon.data_dir / "sitrep.db") as db:
        db.execute("DELETE FROM launch_phase")
        db.execute("DELETE FROM launch")
    db.close()
    daemon.start()
    launch = wait_until(lambda: (daemon.client.get("/api/v1/launches").json()["data"] or [None])[0])
    assert launch is not None
    assert (launch["id"], launch["name"], launch["pid"]) == ("L1", "lost", pid)


@pytest.mark.slow
def test_an_appended_log_is_read_from_where_the_start_began(daemon: Daemon, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("[2026-01-01 00:00:00] The server is fired up and ready to roll!\n")
    text = command(free_port(), log, 2).replace(f"> {log}", f">> {log}")
    start(daemon, command=text, cwd=str(tmp_path))
    launch = until(daemon, "L1", "ready")
    assert [phase["name"] for phase in launch["phases"]] == PHASES


def test_a_generic_server_is_ready_when_its_url_answers(daemon: Daemon, tmp_path: Path) -> None:
    port = free_port()
    server = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(port)]
    start(daemon, argv=server, cwd=str(tmp_path), ready_url=f"http://127.0.0.1:{port}/")
    assert until(daemon, "L1", "ready")["engine"] == "generic"


def test_a_generic_server_is_ready_when_its_line_comes(daemon: Daemon, tmp_path: Path) -> None:
    start(
        daemon,
        command="echo starting; sleep 0.5; echo now serving; sleep 60",
        cwd=str(tmp_path),
        ready_pattern="now serving",
    )
    until(daemon, "L1", "ready")
    assert "now serving" in daemon.client.get("/api/v1/launches/L1/log").json()["text"]


def test_the_log_is_read_in_parts(daemon: Daemon, tmp_path: Path) -> None:
    start(daemon, command="printf 0123456789; sleep 60", cwd=str(tmp_path))
    wait_until(lambda: daemon.client.get("/api/v1/launches/L1/log").json().get("size") == 10)
    part = daemon.client.get("/api/v1/launches/L1/log", params={"offset": 2, "limit": 3}).json()
    assert (part["text"], part["offset"], part["next_offset"]) == ("234", 2, 5)
    assert daemon.client.get("/api/v1/launches/L1/log", params={"offset": -2}).json()["text"] == "89"
    assert daemon.client.get("/api/v1/launches/L1/log", params={"offset": 99}).json()["text"] == ""


BAD = [
    ({"command": "nosuchprogram --port 1"}, "No such program"),
    ({"command": "echo 'unfinished"}, "Line 1"),
    ({"command": "   "}, "nothing to run"),
    ({"command": "x", "argv": ["x"]}, "one of them"),
    ({}, "one of them"),
    ({"argv": []}, "argv"),
    ({"argv": ["true"], "cwd": "/no/such/folder"}, "is no folder"),
    ({"argv": ["true"], "cwd": "relative"}, "is no folder"),
    ({"command": "true > /no/such/folder/log"}, "/no/such/folder"),
    ({"argv": ["true"], "engine": "warp"}, "use sglang, vllm or generic"),
    ({"argv": ["true"], "ready_pattern": "("}, "no regular expression"),
    ({"argv": ["true"], "state": "ready"}, "observed, not told"),
    ({"argv": ["true"], "limits": {"nofile": [1]}}, "limits.nofile"),
]


@pytest.mark.parametrize(("body", "why"), BAD)
def test_a_start_that_cannot_be_leaves_nothing_behind(
    client: Any, body: dict[str, Any], why: str, tmp_path: Path
) -> None:
    answer = client.post("/api/v1/launches", json={"cwd": str(tmp_path), **body})
    assert answer.status_code in (409, 422), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert why in answer.json()["detail"]
    assert client.get("/api/v1/launches").json()["count"] == 0
    assert list((tmp_path / "store" / "launches").iterdir()) == []


def test_a_taken_port_is_refused_before_the_start(client: Any, tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        answer = client.post(
            "/api/v1/launches", json={"command": command(port, tmp_path / "log", 1), "cwd": str(tmp_path)}
        )
    assert answer.status_code == 409
    assert f"Port {port} is taken by pid {os.getpid()}" in answer.json()["detail"]


def test_nothing_secret_is_stored_and_the_server_gets_it_all_the_same(daemon: Daemon, tmp_path: Path) -> None:
    secret = "sk-" + "a1B2c3D4e5F6g7H8i9J0k1L2"
    out = tmp_path / "out"
    script = f"import os, sys, json; json.dump([sys.argv, dict(os.environ)], open({str(out)!r}, 'w'))"
    start(
        daemon,
        command=f"OPENAI_API_KEY={secret} {shlex.quote(sys.executable)} -c {shlex.quote(script)} --api-key {secret}",
        cwd=str(tmp_path),
        env={"MY_TOKEN": secret},
    )
    until(daemon, "L1", "exited")
    argv, env = json.loads(out.read_text())
    assert argv[-1] == env["OPENAI_API_KEY"] == env["MY_TOKEN"] == secret
    stored = b"".join(path.read_bytes() for path in daemon.data_dir.rglob("*") if path.is_file())
    assert secret.encode() not in stored
    assert "OPENAI_API_KEY=${OPENAI_API_KEY}" in get(daemon, "L1")["command"]


def test_an_exit_of_zero_is_no_failure(daemon: Daemon, tmp_path: Path) -> None:
    start(daemon, argv=["true"], cwd=str(tmp_path))
    launch = until(daemon, "L1", "exited")
    assert launch["exit_code"] == 0
    assert "failure" not in launch


def test_a_checkpoint_tells_of_the_environment_what_the_command_does_not_say(daemon: Daemon, tmp_path: Path) -> None:
    """An exported variable decides how the ranks speak, and is in no word of the command."""
    daemon.client.post("/api/v1/sessions", json={"name": "s"})
    env = {
        "PATH": os.environ["PATH"], "NCCL_P2P_DISABLE": "1", "SGLANG_CPU_OMP_THREADS_BIND": "0-15|16-31",
        "NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple", "SGLANG_API_KEY": "sk-" + "q8Wz4rTy9pLm2cVb7nXk", "EDITOR": "vi",
    }  # fmt: skip
    line = f"NCCL_PROTO=LL {REPLAY} --duration 1 -m sglang.launch_server --model-path /m --port {free_port()}"
    start(daemon, command=line, cwd=str(tmp_path), env=env, inherit_env=False, told_env=["NCCL_ALGO"])
    daemon.client.post("/api/v1/sessions/current/checkpoints").raise_for_status()
    text = daemon.client.get("/api/v1/sessions/current/checkpoints/latest", params={"format": "md"}).text
    (head,) = [line for line in text.splitlines() if line.startswith("- Command of L1, run in")]
    told = head.partition("where the environment had ")[2]
    assert told == (
        'NCCL_ALGO=Ring NCCL_P2P_DISABLE=1 SGLANG_API_KEY="${SGLANG_API_KEY}" '
        "SGLANG_CPU_OMP_THREADS_BIND='0-15|16-31':"
    )
