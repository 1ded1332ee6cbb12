"""What a started launch runs on is asked for by the daemon."""

from __future__ import annotations

import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.daemons import Daemon, running_daemon
from tests.helpers import free_port, wait_until
from tests.stack.conftest import make_environment


def launch(daemon: Daemon, **body: Any) -> str:
    answer = daemon.client.post("/api/v1/launches", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def stack_of(daemon: Daemon, number: str) -> dict[str, Any]:
    def found() -> dict[str, Any] | None:
        answer = daemon.client.get(f"/api/v1/launches/{number}/stack")
        return answer.json() if answer.status_code == 200 else None

    return wait_until(found) or {}


@pytest.mark.slow
def test_launches_are_asked_once_at_the_lowest_priority(tmp_path: Path):
    serving = make_environment(tmp_path / "serving")
    serving.install("sglang", "0.5.16")
    serving.install("torch", "2.11.0")
    serving.module("sitecustomize.py", "import os, sys\nopen(os.environ['NICE'], 'a').write(f'{os.nice(0)}\\n')\n")
    nice = tmp_path / "nice"
    with running_daemon(tmp_path / "store") as daemon:
        told = {"command": f"NICE={nice} FIRST=1 {serving.python} -c 'import time; time.sleep(60)'", "cwd": "/"}
        number = launch(daemon, **told)
        stack = stack_of(daemon, number)
        assert stack["packages"] == {"sglang": "0.5.16", "torch": "2.11.0"}
        assert stack["python"] == ".".join(map(str, sys.version_info[:3]))
        assert stack["provenance"] == "observed"
        assert stack["launch"] == number
        assert stack["host"] == daemon.client.get("/api/v1/hosts/current").json()["id"]
        assert "note" not in stack
        assert nice.read_text().split() == [str(os.nice(0)), "19"]
        kinds = [event["kind"] for event in daemon.client.get("/api/v1/events").json()]
        assert kinds.count("stack.created") == 1

        # Another daemon does not ask again, but asks about what it finds running without an answer.
        replay = [sys.executable, "-m", "sitrepd.demo.replay", "--port", str(free_port()), "--duration", "60"]
        second = launch(daemon, argv=replay, cwd="/")
        assert "nvidia-ml-py" in stack_of(daemon, second)["packages"]
        daemon.end(9)
        with closing(sqlite3.connect(daemon.data_dir / "sitrep.db")) as db, db:
            db.execute("DELETE FROM stack WHERE launch_id = ?", (int(second[1:]),))
        daemon.start()
        assert "nvidia-ml-py" in stack_of(daemon, second)["packages"]
        assert daemon.client.get("/api/v1/stacks").json()["count"] == 2


@pytest.mark.slow
def test_what_cannot_be_known_is_said(tmp_path: Path):
    script = tmp_path / "serve.sh"
    script.write_text("#!/bin/sh\nsleep 60\n/no/such/python -m sglang.launch_server\n")
    script.chmod(0o755)
    with running_daemon(tmp_path / "store") as daemon:
        missing = stack_of(daemon, launch(daemon, command=str(script), cwd="/"))
        assert missing["packages"] == {}
        assert missing["note"] == "the packages are not known: /no/such/python was not found"
        assert missing["os"]
        # It ends before it can be asked: what was told is what there is.
        other = stack_of(daemon, launch(daemon, argv=["/bin/true"], cwd="/"))
        assert other["note"].startswith("the packages are not known: ")
        recorded = daemon.client.post("/api/v1/launches", json={"command": "python x.py", "start": False})
        answer = daemon.client.get(f"/api/v1/launches/{recorded.json()['id']}/stack")
        assert answer.status_code == 404
        assert answer.json()["detail"] == f"The stack of {recorded.json()['id']} is not known: none was told."
        assert daemon.client.get("/api/v1/launches/L99/stack").status_code == 404


_SERVE = """
sleep 1
. ./activate_it
python -m sglang.launch_server --model-path /models/kimi --port {port}
"""


@pytest.mark.slow
@pytest.mark.parametrize("command", [True, False])
def test_what_a_script_starts_is_asked_once_it_is_seen(tmp_path: Path, command: bool):
    serving = make_environment(tmp_path / "serving")
    serving.install("sglang", "0.5.16")
    serving.module("sglang/launch_server.py", "import time\ntime.sleep(300)\n")
    # Only a shell knows where this leads: the text names the Python of the machine, or none.
    (tmp_path / "activate_it").write_text(f'PATH="$(echo {serving.prefix})/bin:$PATH"\n')
    (tmp_path / "serve.sh").write_text(_SERVE.format(port=free_port()))
    words = {"command": "bash serve.sh"} if command else {"argv": ["bash", "serve.sh"]}
    with running_daemon(tmp_path / "store", SITREP_DISCOVER_S="0.2") as daemon:
        number = launch(daemon, **words, cwd=str(tmp_path))
        packages = wait_until(lambda: stack_of(daemon, number)["packages"].get("sglang"))
        assert packages == "0.5.16"
        stack = stack_of(daemon, number)
        assert "note" not in stack
        assert daemon.client.get("/api/v1/stacks").json()["count"] == 1
        daemon.client.post(f"/api/v1/launches/{number}/stop", json={"wait_s": 30})
