"""What a daemon that was killed had learned or begun, the next one knows and goes on with."""

from __future__ import annotations

import re
import signal
import sys
from pathlib import Path
from typing import Any

from tests.daemons import Daemon
from tests.helpers import free_port, lives, wait_until
from tests.launches.reading import LOGS

# Plays a recorded log, and opens its port when a file appears; answers nothing.
_PLAYER = """
import os, socket, sys, time
log, port, gate = sys.argv[1:4]
sys.stdout.write(open(log).read())
sys.stdout.flush()
while not os.path.exists(gate):
    time.sleep(0.02)
listener = socket.create_server(("127.0.0.1", int(port)))
time.sleep(600)
"""
_DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"


def _launch(daemon: Daemon, folder: Path, *argv: str, **more: Any) -> dict[str, Any]:
    body = {"argv": [sys.executable, "-c", *argv], "cwd": str(folder), **more}
    answer = daemon.client.post("/api/v1/launches", json=body)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def _until(daemon: Daemon, state: str) -> dict[str, Any]:
    wait_until(lambda: daemon.client.get("/api/v1/launches/L1").json()["state"] == state, interval_s=0.05)
    return dict(daemon.client.get("/api/v1/launches/L1").json())


def _play(daemon: Daemon, folder: Path, recording: str) -> Path:
    """A server that has written all of the recording, whose port is closed until the returned file exists."""
    log, gate, port = folder / "played.log", folder / "gate", free_port()
    told = (LOGS / f"{recording}.log").read_text()
    recorded = re.search(r"running on http://127.0.0.1:(\d+)|\('127.0.0.1', (\d+)\)", told)
    assert recorded is not None
    lines = told.replace(recorded[1] or recorded[2], str(port)).splitlines(keepends=True)
    ready = next(n for n, line in enumerate(lines) if "ready to roll" in line)
    log.write_text("".join(lines[: ready + 1]))
    _launch(daemon, folder, _PLAYER, str(log), str(port), str(gate), port=port, engine="sglang")
    return gate


def test_a_ready_line_that_an_earlier_daemon_read_counts(daemon: Daemon, tmp_path: Path) -> None:
    gate = _play(daemon, tmp_path, "cpu-0.5.23-success")
    wait_until(lambda: any(p["name"] == "warmup" for p in daemon.client.get("/api/v1/launches/L1").json()["phases"]))
    daemon.restart(signal.SIGKILL)
    assert daemon.client.get("/api/v1/launches/L1").json()["state"] != "ready"
    gate.touch()
    _until(daemon, "ready")


def test_a_taken_port_stays_taken(daemon: Daemon, tmp_path: Path) -> None:
    gate = _play(daemon, tmp_path, "cpu-0.5.23-port-in-use")
    _until(daemon, "failed")
    wait_until(lambda: daemon.client.get("/api/v1/findings").json()["data"])
    before = daemon.client.get("/api/v1/launches/L1").json()
    daemon.restart(signal.SIGKILL)
    gate.touch()
    stopped = daemon.client.post("/api/v1/launches/L1/stop", json={"grace_s": 1, "wait_s": 20}).json()
    told = [one["data"] for one in daemon.client.get("/api/v1/events").json() if one["subject"] == "L1"]
    assert [one["state"] for one in told if one.get("state")][-2:] == ["failed", stopped["state"]]
    assert "ready_at" not in stopped
    assert stopped["failure"] == before["failure"]


def test_a_stop_goes_on(daemon: Daemon, tmp_path: Path) -> None:
    _launch(daemon, tmp_path, _DEAF, ready_pattern="up")
    pid = _until(daemon, "ready")["pid"]
    assert daemon.client.post("/api/v1/launches/L1/stop", json={"grace_s": 1}).status_code == 202
    daemon.restart(signal.SIGKILL)
    launch = _until(daemon, "exited")
    assert launch["exit_signal"] == signal.SIGKILL
    assert not lives(pid)
