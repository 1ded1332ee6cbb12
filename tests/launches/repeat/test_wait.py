"""Waiting for a launch: by the API, woken by commits, and by the command line across a restart of the daemon."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.cli.running import Sitrep
from tests.daemons import Daemon, running_daemon
from tests.helpers import PATIENCE_S, free_port, wait_until
from tests.launches.repeat.conftest import get, line, start, until

from sitrepd.cli import wait as cli_wait
from sitrepd.launches.models import Launch
from sitrepd.launches.wait import holds


@pytest.mark.parametrize(
    ("state", "phases", "wanted", "held"),
    [
        ("starting", set(), "starting", True), ("starting", set(), "loading", False),
        ("capturing", set(), "loading", True), ("ready", set(), "warming", True), ("ready", set(), "ended", False),
        ("failed", set(), "ready", False), ("failed", set(), "failed", True), ("lost", set(), "failed", True),
        ("exited", set(), "failed", False), ("exited", set(), "ended", True), ("exited", set(), "exited", True),
        ("failed", set(), "loading", False), ("loading", {"load_weights"}, "load_weights", True),
        ("ready", {"load_weights"}, "load_weights", True), ("loading", set(), "kv_cache", False),
    ],
)  # fmt: skip
def test_what_holds(state: str, phases: set[str], wanted: str, held: bool) -> None:
    assert holds(Launch(state=state, provenance="observed"), phases, wanted) is held


@pytest.mark.parametrize(
    ("told", "wanted", "code"),
    [
        ({"reached": "ready", "over": False, "state": "ready"}, ["ready"], 0),
        ({"reached": "ready", "over": False, "state": "ready"}, ["failed", "ready"], 6),
        ({"reached": "failed", "over": True, "state": "failed"}, ["ready", "failed"], 4),
        ({"reached": "failed", "over": True, "state": "failed"}, ["failed"], 0),
        ({"over": True, "state": "lost"}, ["ready"], 4),
        ({"over": True, "state": "exited"}, ["ready"], 5),
        ({"reached": "ended", "over": True, "state": "exited"}, ["ready", "ended"], 5),
        ({"over": False, "state": "loading"}, ["ready"], 124),
    ],
)
def test_the_exit_status_says_which(told: dict[str, Any], wanted: list[str], code: int) -> None:
    assert cli_wait.status(told, wanted) == code


@pytest.mark.parametrize(
    ("told", "wanted"), [("90", 90), ("90s", 90), ("1.5m", 90), ("30m", 1800), ("1h30m", 5400), ("2h", 7200)]
)
def test_times_as_people_write_them(told: str, wanted: float) -> None:
    assert cli_wait.seconds(told) == wanted


def test_a_wait_is_answered_when_the_state_comes_and_is_no_activity(daemon: Daemon, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script = (
        "import os, sys, time\n"
        "print('begun', flush=True)\n"
        f"while not os.path.exists({str(gate)!r}): time.sleep(0.01)\n"
        "print('up', flush=True)\n"
        "time.sleep(300)\n"
    )
    start(daemon, argv=[sys.executable, "-c", script], cwd=str(tmp_path), ready_pattern="^up")
    none = get(daemon, "launches/L1/wait", timeout_s=0.2)
    assert none == {"id": "L1", "over": False, "state": "starting"}
    answers: list[Any] = []

    def ask() -> None:
        answers.append(get(daemon, "launches/L1/wait", **{"for": ["ended", "ready"], "timeout_s": 25}))

    asking = threading.Thread(target=ask)
    asking.start()
    gate.touch()
    until(daemon, "L1", "ready")
    asking.join(PATIENCE_S)
    assert answers == [{"id": "L1", "reached": "ready", "over": False, "state": "ready"}]
    daemon.client.post("/api/v1/launches/L1/stop", json={"grace_s": 5, "wait_s": 20})
    over = get(daemon, "launches/L1/wait", timeout_s=20)
    assert (over["over"], over["state"], over.get("reached")) == (True, "exited", None)


def test_what_is_no_state_or_no_process_is_refused(daemon: Daemon) -> None:
    start(daemon, start=False, state="loading", command="python -m s")
    answer = daemon.client.get("/api/v1/launches/L1/wait", params={"for": "nonsense"})
    assert answer.status_code == 422
    assert "load_weights" in answer.json()["detail"]
    assert daemon.client.get("/api/v1/launches/L1/wait").status_code == 409
    assert get(daemon, "launches/L1/wait", **{"for": "loading"})["reached"] == "loading"


@pytest.mark.slow
def test_the_command_line_waits_on_while_the_daemon_is_killed_and_another_takes_over(tmp_path: Path) -> None:
    with running_daemon(tmp_path / "store") as daemon:
        sitrep = Sitrep(tmp_path / "store", tmp_path)
        gate = tmp_path / "gate"
        script = (
            f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)\n"
            "print('up', flush=True)\ntime.sleep(300)\n"
        )
        start(daemon, argv=[sys.executable, "-c", script], cwd=str(tmp_path), ready_pattern="^up")
        waiting = sitrep.start("wait", "L1", "--no-start", "--timeout", "5m")
        over = sitrep.start("wait", "L1", "--for", "load_weights", "--timeout", "0.1s")
        assert over.communicate(timeout=PATIENCE_S)[0].endswith("load_weights was not reached within 0.1s.\n")
        assert over.returncode == 124
        daemon.restart()
        assert waiting.poll() is None
        gate.touch()
        out, err = waiting.communicate(timeout=PATIENCE_S)
        assert (waiting.returncode, out) == (0, "L1 is ready.\n"), err


def test_a_failed_start_ends_the_wait_with_its_cause(daemon: Daemon, tmp_path: Path) -> None:
    sitrep = Sitrep(daemon.data_dir, tmp_path)
    start(daemon, command=line(free_port(), tmp_path / "a.log", 1, "--fail oom"), cwd=str(tmp_path))
    done = sitrep("wait", "L1", "--for", "ready", "--for", "ended", "--timeout", "30s")
    assert done.code == 4, done.err
    assert done.out.startswith("L1 is failed")
    assert wait_until(lambda: sitrep("wait", "L1", "--for", "failed", "--json").json)["reached"] == "failed"
