"""A daemon that is killed in the middle of a sweep: the next one goes on, starts nothing twice, measures nothing twice."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.daemons import Daemon, running_daemon
from tests.helpers import lives, wait_until
from tests.sweeps.playing import Play

API = "/api/v1"
pytestmark = pytest.mark.slow


@pytest.fixture
def play(tmp_path: Path) -> Play:
    return Play(tmp_path)


@pytest.fixture
def daemon(tmp_path: Path, play: Play) -> Iterator[Daemon]:
    with running_daemon(tmp_path / "store", log_poll_s=0.05) as found:
        found.client.post(f"{API}/sessions", json={"name": "killed"}).raise_for_status()
        yield found
        play.hold.unlink(missing_ok=True)


def _run(daemon: Daemon, told: dict[str, Any]) -> str:
    answer = daemon.client.post(f"{API}/sweeps/run", json=told)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def _status(daemon: Daemon, sweep: str) -> dict[str, Any]:
    found: dict[str, Any] = daemon.client.get(f"{API}/sweeps/{sweep}/status").json()
    return found


def _done(daemon: Daemon, sweep: str) -> dict[str, Any]:
    wait_until(lambda: _status(daemon, sweep)["state"] not in ("planned", "running"), 240)
    return _status(daemon, sweep)


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_again_and_again_it_is_carried_out_once(daemon: Daemon, play: Play, seed: int) -> None:
    chance = random.Random(seed)
    sweep = _run(daemon, play.sweep(parameters={"steps": ["absent", 1, 2, 3]}))
    for _ in range(10):
        time.sleep(chance.uniform(0, 1.5))
        daemon.restart(signal.SIGKILL)
    told = _done(daemon, sweep)
    assert told["state"] == "done", told
    assert [(one["state"], one["attempt"], one["runs"]) for one in told["trials"]] == [("done", 1, 2)] * 4, told[
        "trials"
    ]
    assert [start["steps"] for start in play.starts()] == [0, 1, 2, 3], "each server was started once"
    assert not any(lives(start["pid"]) for start in play.starts())
    assert daemon.client.get(f"{API}/benchmarks").json()["count"] == 8
    assert daemon.client.get(f"{API}/launches").json()["count"] == 4


@pytest.mark.parametrize("step", ["waiting", "launching", "loading", "measuring", "stopping"])
def test_killed_at_a_step_the_next_daemon_goes_on_with_it(daemon: Daemon, play: Play, step: str) -> None:
    """The rows are put back to where a daemon that was killed right then would have left them."""
    play.hold.touch()
    sweep = _run(daemon, play.sweep(parameters={"steps": [2]}, baseline=None))
    wait_until(lambda: _status(daemon, sweep)["trials"][0].get("step") == "measuring" and play.starts())
    daemon.end(signal.SIGKILL)
    with closing(sqlite3.connect(daemon.data_dir / "sitrep.db")) as db:
        if step == "waiting":
            # Nothing had been begun: the server and its rows are somebody else's now, and hold the port.
            db.execute(
                "UPDATE trial SET step = 'waiting', launch_id = NULL, launch_number = NULL, boot = NULL, attempt = 0"
            )
            db.execute("UPDATE benchmark_job SET trial = NULL")
        elif step in ("launching", "loading"):
            db.execute("UPDATE trial SET step = ?, launch_id = NULL", (step,))
        elif step == "stopping":
            db.execute("UPDATE trial SET step = 'stopping'")
        db.commit()
    daemon.start()
    if step == "waiting":
        wait_until(lambda: "waits: port" in (_status(daemon, sweep)["trials"][0].get("why") or ""))
        daemon.client.post(f"{API}/launches/L1/stop", json={"grace_s": 1, "wait_s": 30}).raise_for_status()
    play.hold.unlink()
    told = _done(daemon, sweep)
    (trial,) = told["trials"]
    assert (told["state"], trial["state"], trial["attempt"], trial["runs"]) == ("done", "done", 1, 2), told
    assert len(play.starts()) == (2 if step == "waiting" else 1)


def test_after_a_reboot_the_trial_under_way_is_repeated(daemon: Daemon, play: Play) -> None:
    play.hold.touch()
    sweep = _run(daemon, play.sweep(parameters={"steps": [1, 2]}, baseline=None))
    wait_until(lambda: _status(daemon, sweep)["trials"][0].get("step") == "measuring" and play.starts())
    daemon.end(signal.SIGKILL)
    os.kill(play.starts()[0]["pid"], signal.SIGKILL)
    play.hold.unlink()
    with closing(sqlite3.connect(daemon.data_dir / "sitrep.db")) as db:
        ((told,),) = db.execute("SELECT process FROM launch").fetchall()
        process = json.loads(told)
        for name in ("identity", "supervisor", "main"):
            if process.get(name):
                process[name]["boot_id"] = "before"
        db.execute("UPDATE launch SET process = ?", (json.dumps(process),))
        db.execute("UPDATE trial SET boot = 'before' WHERE state = 'running'")
        db.commit()
    daemon.start()
    found = _done(daemon, sweep)
    assert [(one["state"], one["attempt"]) for one in found["trials"]] == [("done", 2), ("done", 1)], found
    assert [start["steps"] for start in play.starts()] == [1, 1, 2]


def test_paused_it_stays_so_and_stopped_it_is_cleaned_up_by_the_next_daemon(daemon: Daemon, play: Play) -> None:
    play.hold.touch()
    sweep = _run(daemon, play.sweep(parameters={"steps": [1, 2]}, baseline=None))
    wait_until(lambda: _status(daemon, sweep)["trials"][0].get("step") == "measuring" and play.starts())
    daemon.client.post(f"{API}/sweeps/{sweep}/pause").raise_for_status()
    daemon.restart(signal.SIGKILL)
    assert _status(daemon, sweep)["state"] == "paused"
    daemon.end(signal.SIGKILL)
    with closing(sqlite3.connect(daemon.data_dir / "sitrep.db")) as db:
        db.execute("UPDATE sweep SET state = 'stopped', halt = 1")
        db.commit()
    daemon.start()
    wait_until(lambda: _status(daemon, sweep)["trials"][0]["state"] == "planned")
    assert not lives(play.starts()[0]["pid"])
    assert len(play.starts()) == 1
