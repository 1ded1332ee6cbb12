"""What a daemon that was killed had learned or begun, the next one knows and goes on with."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.daemons import Daemon
from tests.helpers import free_port, lives, wait_until
from tests.launches.reading import LOGS

from sitrepd.launches.examinations import Examinations
from sitrepd.launches.watch import Outcome, step_all

pytestmark = pytest.mark.slow  # each test starts daemons of its own

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


class _Failing:
    """Of all watches the one whose look fails."""

    number, rested = 1, False

    def step(self) -> Outcome:
        raise RuntimeError("a line that nobody thought of")

    def rest(self) -> None:
        self.rested = True


class _Working:
    number = 2

    def step(self) -> Outcome:
        return Outcome(state="ready")


def test_a_look_that_fails_does_not_keep_the_others_from_theirs(caplog: pytest.LogCaptureFixture) -> None:
    failing, working = _Failing(), _Working()
    found = step_all([failing, working])  # type: ignore[list-item]
    assert {number: one.state for number, one in found.items()} == {2: "ready"}
    assert failing.rested
    assert "L1 cannot be looked at" in caplog.text


def test_a_launch_that_cannot_be_taken_up_does_not_keep_the_others_from_it(daemon: Daemon, tmp_path: Path) -> None:
    for _ in range(2):
        _launch(daemon, tmp_path, _DEAF, ready_pattern="up")
    wait_until(lambda: daemon.client.get("/api/v1/launches/L2").json()["state"] == "ready")
    daemon.end(signal.SIGKILL)
    with closing(sqlite3.connect(daemon.data_dir / "sitrep.db")) as db:
        (text,) = db.execute("SELECT process FROM launch WHERE id = 1").fetchone()
        damaged = json.dumps(json.loads(text) | {"identity": {"pid": 1}})
        db.execute("UPDATE launch SET process = ? WHERE id = 1", (damaged,))
        db.commit()
    daemon.start()
    pid = daemon.client.get("/api/v1/launches/L2").json()["pid"]
    answer = daemon.client.post("/api/v1/launches/L2/stop", json={"grace_s": 0, "wait_s": 30})
    assert (answer.status_code, answer.json()["state"]) == (202, "exited")
    assert not lives(pid)
    os.kill(json.loads(text)["pid"], signal.SIGKILL)


def test_what_is_left_to_be_looked_into_holds_up_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Causes of many failures, or one in a log of days, may take minutes to find."""

    async def for_ever(_: Examinations) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(Examinations, "of_what_is_left_over", for_ever)
    client = request.getfixturevalue("client")
    answer = client.post("/api/v1/launches", json={"argv": ["/bin/true"], "cwd": str(tmp_path)})
    assert answer.status_code == 201, answer.text
    wait_until(lambda: client.get("/api/v1/launches/L1").json()["state"] == "exited", interval_s=0.05)
