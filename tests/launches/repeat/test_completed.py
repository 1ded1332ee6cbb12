"""A restart goes on when the daemon that was asked for it is killed, at whatever moment."""

from __future__ import annotations

import json
import random
import shlex
import signal
import sqlite3
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest
from tests.daemons import Daemon
from tests.helpers import lives, wait_until
from tests.launches.repeat.conftest import SECRET, get, start, until

from sitrepd.errors import InvalidFact
from sitrepd.launches.repeat.again import RestartIn
from sitrepd.launches.repeat.restart import with_secrets, without_secrets

pytestmark = pytest.mark.slow  # each test starts daemons of its own

_KILLS = 12
# Ends half a second after it was asked to, or never.
_SLOW = (
    "import os, signal, sys, time\n"
    "signal.signal(signal.SIGTERM, lambda *_: sys.argv[1] == 'deaf' or (time.sleep(0.5), os._exit(0)))\n"
    "print('up', sys.argv[1:], os.environ.get('MARK'), flush=True)\n"
    "while True: time.sleep(60)\n"
)


def server(daemon: Daemon, folder: Path, kind: str, log: str = "serve.log") -> dict[str, Any]:
    command = f"nohup {shlex.quote(sys.executable)} -c {shlex.quote(_SLOW)} {kind} --x 1 > {log} 2>&1 &"
    return start(daemon, command=command, cwd=str(folder), ready_pattern="up")


def ask(daemon: Daemon, launch: str, **told: Any) -> threading.Thread:
    """Asked for in a thread, as the daemon may die before it answers."""
    transport = httpx2.HTTPTransport(uds=str(daemon.data_dir / "sitrep.sock"))

    def post() -> None:
        with httpx2.Client(transport=transport, base_url="http://localhost", timeout=120) as client:
            try:
                client.post(f"/api/v1/launches/{launch}/restart", json=told)
            except httpx2.TransportError:
                return

    asking = threading.Thread(target=post)
    asking.start()
    return asking


def stop_was_asked(daemon: Daemon, launch: str) -> bool:
    events = daemon.client.get("/api/v1/events", params={"limit": 1000}).json()
    return any(one["subject"] == launch and one["data"].get("stop") == "asked" for one in events)


def kept(daemon: Daemon) -> list[dict[str, Any]]:
    """The restarts that are not done yet, as the store has them."""
    with closing(sqlite3.connect(f"file:{daemon.data_dir / 'sitrep.db'}?mode=ro", uri=True)) as db:
        rows = db.execute("SELECT process FROM launch").fetchall()
    return [one["restart"] for (text,) in rows if "restart" in (one := json.loads(text or "{}"))]


def test_the_next_daemon_completes_a_restart(daemon: Daemon, tmp_path: Path) -> None:
    daemon.client.post("/api/v1/sessions", json={"name": "s"})
    first = server(daemon, tmp_path, "deaf")
    until(daemon, "L1", "ready")
    told = {"set": {"x": 2}, "env": {"MARK": "kept", "HF_TOKEN": SECRET}, "grace_s": 2}
    asking = ask(daemon, "L1", **told)
    wait_until(lambda: stop_was_asked(daemon, "L1"), 20)
    assert SECRET not in json.dumps(kept(daemon))
    busy = daemon.client.post("/api/v1/launches/L1/restart", json={})
    assert (busy.status_code, "being restarted already" in busy.text) == (409, True)
    daemon.end(signal.SIGKILL)
    asking.join()
    assert lives(first["pid"])
    daemon.start()
    wait_until(lambda: daemon.client.get("/api/v1/launches/L2").status_code == 200, 30)
    second = until(daemon, "L2", "ready")
    assert (second["from_launch"], second["session"]) == ("L1", "S1")
    assert not lives(first["pid"])
    process = psutil.Process(second["pid"])
    assert (process.cmdline()[-2:], process.environ()["MARK"]) == (["--x", "2"], "kept")
    wait_until(lambda: not kept(daemon), 20)
    told_first = get(daemon, "launches/L1")
    assert (told_first["state"], told_first["log_path"]) == ("exited", str(tmp_path / "serve.L1.log"))
    assert (tmp_path / "serve.L1.log").read_text() == "up ['deaf', '--x', '1'] None\n"


def test_what_can_not_be_completed_is_said(daemon: Daemon, tmp_path: Path) -> None:
    server(daemon, tmp_path, "deaf")
    until(daemon, "L1", "ready")
    asking = ask(daemon, "L1", set={"api-key": SECRET}, grace_s=2)
    wait_until(lambda: stop_was_asked(daemon, "L1"), 20)
    daemon.end(signal.SIGKILL)
    asking.join()
    assert SECRET not in json.dumps(kept(daemon))
    daemon.start()
    wait_until(lambda: not kept(daemon), 30)
    (warning,) = get(daemon, "launches/L1")["warnings"]
    assert warning.startswith(
        "The restart that was asked for was not completed: L1 was started with the secret API_KEY"
    )


@pytest.mark.slow
def test_a_daemon_killed_at_any_moment_of_a_restart_leaves_one_server(daemon: Daemon, tmp_path: Path) -> None:
    moments = random.Random(20261201)
    newest = server(daemon, tmp_path, "ends")
    until(daemon, newest["id"], "ready")
    done = 0
    for _ in range(_KILLS):
        asking = ask(daemon, newest["id"], grace_s=10)
        asking.join(moments.uniform(0, 1.5))
        daemon.end(signal.SIGKILL)
        asking.join()
        daemon.start()
        wait_until(lambda: not kept(daemon) and len(_running(daemon)) == 1)
        (newest,) = _running(daemon)
        until(daemon, newest["id"], "ready")
        launches = get(daemon, "launches", limit=100)["data"]
        assert sum(lives(one["pid"]) for one in launches) == 1
        assert all(one["state"] == "exited" for one in launches if one["id"] != newest["id"])
        assert "up" in Path(newest["log_path"]).read_text()
        done = max(done, len(launches))
    logs = [one["log_path"] for one in get(daemon, "launches", limit=100)["data"]]
    assert len(set(logs)) == len(logs)
    assert done > _KILLS // 3


def _running(daemon: Daemon) -> list[dict[str, Any]]:
    return [one for one in get(daemon, "launches", limit=100)["data"] if "ended_at" not in one]


def test_secrets_are_kept_as_references() -> None:
    asked = RestartIn(
        set={"api-key": SECRET, "port": 8000, "x": ["a", "b"]},
        env={"HF_TOKEN": "hf_" + "a1B2" * 8, "MARK": "1"},
        caller_env={"HOME": "/h"},
    )
    told = without_secrets(asked)
    assert told == {
        "set": {"api-key": "${API_KEY}", "port": 8000, "x": ["a", "b"]},
        "env": {"HF_TOKEN": "${HF_TOKEN}", "MARK": "1"},
    }
    again = with_secrets(told, {"API_KEY": SECRET, "HF_TOKEN": "t"}, "L1")
    assert (again.set, again.env) == (asked.set, {"HF_TOKEN": "t", "MARK": "1"})
    assert with_secrets(told, {"API_KEY": SECRET}, "L1").env == {"MARK": "1"}
    with pytest.raises(InvalidFact, match="API_KEY"):
        with_secrets(told, {}, "L1")
