"""A failed launch leaves a finding that says why, once."""

from __future__ import annotations

import json
import shlex
import signal
import sqlite3
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.daemons import Daemon
from tests.helpers import wait_until
from tests.launches.reading import LOGS

from sitrepd.hardware.gpus import GpuProcess
from sitrepd.hardware.live import LiveHardware, Owned
from sitrepd.launches.examinations import Examinations

pytestmark = pytest.mark.slow  # each test starts daemons of its own

MEMFRACTION = LOGS / "h200-0.5.16-fail-memfraction.log"


def findings(daemon: Daemon, count: int) -> list[dict[str, Any]]:
    def told() -> list[dict[str, Any]] | None:
        page: list[dict[str, Any]] = daemon.client.get("/api/v1/findings").json()["data"]
        return page if len(page) >= count else None

    found = wait_until(told, interval_s=0.05)
    assert found is not None
    return found


def start(daemon: Daemon, tmp_path: Path, command: str) -> str:
    answer = daemon.client.post("/api/v1/launches", json={"command": command, "cwd": str(tmp_path)})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def failing(log: Path, recording: Path = MEMFRACTION) -> str:
    program = f"import sys; sys.stderr.buffer.write(open({str(recording)!r}, 'rb').read()); sys.exit(1)"
    return f"{shlex.quote(sys.executable)} -c {shlex.quote(program)} >> {log} 2>&1"


def test_failed_launch_writes_a_finding(daemon: Daemon, tmp_path: Path) -> None:
    daemon.client.post("/api/v1/sessions", json={"name": "s"})
    log = tmp_path / "server.log"
    log.write_text("an earlier server's line\n")
    launch = start(daemon, tmp_path, failing(log))
    [finding] = findings(daemon, 1)
    assert (finding["kind"], finding["status"], finding["provenance"]) == ("root_cause", "open", "observed")
    assert finding["session"] == "S1"
    assert finding["title"] == "The weights leave no room for the KV cache under the memory fraction"
    assert "--mem-fraction-static 0.04" in finding["detail"]
    assert finding["evidence"][0] == launch
    assert finding["evidence"][1].startswith("log line 43: ValueError: Loaded weights leave no GPU memory")
    told = daemon.client.get(f"/api/v1/launches/{launch}").json()
    assert (told["state"], told["failure"]) == ("failed", finding["title"])


def test_failure_without_a_word_is_an_observation(daemon: Daemon, tmp_path: Path) -> None:
    start(daemon, tmp_path, f"{shlex.quote(sys.executable)} -c 'import sys; sys.exit(7)' > {tmp_path / 'log'} 2>&1")
    [finding] = findings(daemon, 1)
    assert (finding["kind"], finding["title"]) == (
        "observation",
        "The process ended with exit code 7; its log gives no cause.",
    )


def test_what_no_category_is_sure_of_may_be_told_all_the_same(daemon: Daemon, tmp_path: Path) -> None:
    told = tmp_path / "told"
    told.write_text("libgomp: Thread creation failed: Resource temporarily unavailable\nEOFError\n")
    start(daemon, tmp_path, failing(tmp_path / "server.log", told))
    [finding] = findings(daemon, 1)
    assert (finding["kind"], finding["title"]) == ("observation", "No further thread or process could be started")
    assert "ulimit -u" in finding["detail"]
    assert daemon.client.get(f"/api/v1/launches/{finding['evidence'][0]}").json()["failure"] == finding["title"]


def test_next_daemon_looks_into_what_the_last_one_could_not(daemon: Daemon, tmp_path: Path) -> None:
    start(daemon, tmp_path, failing(tmp_path / "server.log"))
    findings(daemon, 1)
    daemon.restart(signal.SIGKILL)
    assert len(findings(daemon, 1)) == 1
    daemon.end(signal.SIGKILL)
    with sqlite3.connect(daemon.data_dir / "sitrep.db") as db:
        db.execute("UPDATE launch SET process = json_remove(process, '$.diagnosed_at')")
    db.close()
    daemon.start()
    assert len(findings(daemon, 2)) == 2


def test_the_checkpoint_of_a_failure_has_its_finding_also_when_no_daemon_saw_it(daemon: Daemon, tmp_path: Path) -> None:
    daemon.client.post("/api/v1/sessions", json={"name": "s"})
    go = tmp_path / "go"
    launch = start(daemon, tmp_path, f"until [ -e {go} ]; do sleep 0.1; done; {failing(tmp_path / 'server.log')}")
    status = Path(daemon.data_dir) / "launches" / launch / "status.json"
    daemon.end(signal.SIGKILL)
    go.touch()
    wait_until(lambda: json.loads(status.read_text())["state"] == "exited")
    daemon.start()
    waited = daemon.client.get(f"/api/v1/launches/{launch}/wait", params={"for": "failed", "timeout_s": 30}).json()
    assert waited["failure"] == "The weights leave no room for the KV cache under the memory fraction"

    def made() -> list[str]:
        listed = daemon.client.get("/api/v1/checkpoints").json()["data"]
        return [one["id"] for one in listed if one["trigger"] == "failed"]

    (checkpoint,) = wait_until(made) or []
    text = daemon.client.get(f"/api/v1/checkpoints/{checkpoint}", params={"format": "md"}).text
    assert "- F1 root cause (open): `The weights leave no room" in text


def test_others_on_the_gpus_are_known_when_a_launch_has_failed() -> None:
    told = ((1, 11, 5 << 30), (None, 12, 3 << 30), (None, 12, 4 << 30), (2, 13, None))
    seen = tuple(
        Owned(process=GpuProcess(index=gpu, uuid="", pid=pid, used_bytes=size, kind="compute"), launch_id=number)
        for gpu, (number, pid, size) in enumerate(told)
    )
    runtime: Any = SimpleNamespace(live={}, store=None)
    examinations = Examinations(runtime)
    assert examinations._others_on_gpus(1) == {}
    runtime.live["hardware"] = LiveHardware(processes=seen)
    assert examinations._others_on_gpus(1) == {12: 7 << 30}
