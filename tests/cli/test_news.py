"""`sitrep wait` without a launch, and the conversation that a shell of an agent belongs to."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.cli.running import Sitrep
from tests.daemons import Daemon
from tests.helpers import PATIENCE_S, wait_until

API = "/api/v1"
pytestmark = pytest.mark.slow  # each test starts many processes


def test_it_ends_at_the_next_event_of_the_kind_that_is_wanted(daemon: Daemon, tmp_path: Path) -> None:
    sitrep = Sitrep(daemon.data_dir, tmp_path)
    daemon.client.post(f"{API}/sessions", json={"name": "work"}).raise_for_status()
    sweep = daemon.client.post(f"{API}/sweeps", json={"name": "steps", "state": "running"}).json()["id"]
    assert "no kind of event" in sitrep("wait", "--for", "lunch").refused(2)
    over = sitrep("wait", "--timeout", "1s")
    assert (over.code, over.out) == (124, "Nothing that is waited for has happened within 1s.\n")
    waits = [
        subprocess.Popen(
            sitrep.command("wait", *words), env=sitrep.environment(), cwd=tmp_path, stdout=subprocess.PIPE, text=True
        )
        for words in ((), ("--for", "failed", "--json"))
    ]

    def ended() -> bool:
        for state in ("running", "done"):
            daemon.client.patch(f"{API}/sweeps/{sweep}", json={"state": state}).raise_for_status()
        return waits[0].poll() is not None

    wait_until(ended, interval_s=0.5)
    out, _ = waits[0].communicate(timeout=PATIENCE_S)
    assert waits[0].returncode == 0
    assert set(out.splitlines()) == {f"Sweep {sweep} steps is done (S1 work). Sweep {sweep} steps is done"}
    daemon.restart()
    told = {"command": "exit 3", "ready_pattern": "never", "cwd": str(tmp_path)}
    daemon.client.post(f"{API}/launches", json=told).raise_for_status()
    out, _ = waits[1].communicate(timeout=PATIENCE_S)
    assert waits[1].returncode == 4
    assert [one["kind"] for one in json.loads(out)["data"]] == ["failed"]


def test_the_shell_of_an_agent_means_the_session_of_its_conversation(daemon: Daemon, tmp_path: Path) -> None:
    sitrep = Sitrep(daemon.data_dir, tmp_path)
    for name in ("one", "two"):
        daemon.client.post(f"{API}/sessions", json={"name": name}).raise_for_status()
    for conversation, session in (("c-1", "S1"), ("c-2", "S2")):
        told = {"session_id": conversation, "source": "startup", "cwd": "/nowhere"}
        headers = {"X-Sitrep-Session": session}
        daemon.client.post(f"{API}/hooks/codex/SessionStart", json=told, headers=headers).raise_for_status()
    for name, conversation, session in (
        ("CLAUDE_CODE_SESSION_ID", "c-1", "S1"), ("CODEX_THREAD_ID", "c-2", "S2"), ("SITREP_CONVERSATION", "c-2", "S2"),
    ):  # fmt: skip
        assert sitrep("session", "show", "--json", env={name: conversation}).json["id"] == session
    assert "2 sessions are open" in sitrep("session", "show", env={"CLAUDE_CODE_SESSION_ID": "unknown"}).refused()
