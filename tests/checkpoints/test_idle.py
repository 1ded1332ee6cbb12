"""Checkpoints that nobody asks for: while something loads and nothing is told, and when something happens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.daemons import Daemon, running_daemon
from tests.helpers import free_port, wait_until
from tests.launches.test_service import command, start, until

from sitrepd.checkpoints.idle import Happened, Trigger, triggers

API = "/api/v1"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """Thirty seconds of idling are half a second here."""
    with running_daemon(tmp_path / "store", idle_after_s=0.5, idle_check_s=0.1) as found:
        yield found


def made(daemon: Daemon) -> list[tuple[str, str]]:
    """Trigger and cause of all checkpoints, oldest first."""
    listed = daemon.client.get(f"{API}/checkpoints").json()["data"][::-1]
    full = [daemon.client.get(f"{API}/checkpoints/{one['id']}").json() for one in listed]
    return [(one["trigger"], one["rendered"]["cause"]) for one in full]


def tell(daemon: Daemon, plural: str, **body: Any) -> None:
    answer = daemon.client.post(f"{API}/{plural}", json=body)
    assert answer.status_code == 201, answer.text


def by_trigger(daemon: Daemon, trigger: str) -> list[str]:
    return [cause for name, cause in made(daemon) if name == trigger]


def test_a_session_that_idles_while_a_server_loads_is_written_down_once(daemon: Daemon, tmp_path: Path) -> None:
    tell(daemon, "sessions", name="s")
    start(daemon, command=command(free_port(), tmp_path / "log", 30), cwd=str(tmp_path), name="three steps")
    until(daemon, "L1", "loading")
    (cause,) = wait_until(lambda: by_trigger(daemon, "idle"), 15)
    assert cause in ("L1 starting", "L1 loading")
    text = daemon.client.get(f"{API}/sessions/current/checkpoints/latest").text
    assert "- L1 three steps is " in text
    assert "time left" in text
    assert "--speculative-num-steps 3" in text
    tell(daemon, "messages", number=1, role="user", text="still there?")
    wait_until(lambda: len(by_trigger(daemon, "idle")) == 2, 15)
    wait_until(lambda: idle_for(daemon, 1.0), 15)
    assert len(by_trigger(daemon, "idle")) == 2
    first = daemon.client.post(f"{API}/sessions/current/resume").text.split("\n\n")[1]
    assert "- L1 three steps is loading now: " in first or "is capturing now" in first


def idle_for(daemon: Daemon, seconds: float) -> bool:
    """Whether the newest checkpoint is that old: polling counts as nothing, so time goes on."""
    from datetime import UTC, datetime

    newest = daemon.client.get(f"{API}/checkpoints", params={"limit": 1}).json()["data"][0]
    age = datetime.now(UTC) - datetime.fromisoformat(newest["at"])
    return age.total_seconds() > seconds


def test_ready_and_exited_are_written_down(daemon: Daemon, tmp_path: Path) -> None:
    tell(daemon, "sessions", name="s")
    start(daemon, command=command(free_port(), tmp_path / "log", 2), cwd=str(tmp_path))
    until(daemon, "L1", "ready", timeout_s=30)
    assert wait_until(lambda: by_trigger(daemon, "ready"), 10) == ["L1 ready"]
    daemon.client.post(f"{API}/launches/L1/stop", json={"grace_s": 2, "wait_s": 10})
    assert wait_until(lambda: by_trigger(daemon, "exited"), 10) == ["L1 exited"]
    text = daemon.client.get(f"{API}/sessions/current/checkpoints/latest").text
    assert "- No launch of this session is alive, as far as is known" in text
    assert "L1 exited" in text


def test_a_failure_is_written_down_with_its_cause(daemon: Daemon, tmp_path: Path) -> None:
    tell(daemon, "sessions", name="s")
    run = f"python3 -c 'import sys; print(\"CUDA error: out of memory\"); sys.exit(3)' > {tmp_path / 'log'} 2>&1"
    start(daemon, command=run, cwd=str(tmp_path), name="broken")
    wait_until(lambda: by_trigger(daemon, "failed"), 15)
    text = daemon.client.get(f"{API}/sessions/current/checkpoints/latest").text
    assert "- L1 broken failed with exit code 3" in text


def test_an_empty_message_and_the_end_of_a_session_are_written_down(daemon: Daemon) -> None:
    tell(daemon, "sessions", name="s")
    tell(daemon, "messages", number=1, role="user", text="hello")
    tell(daemon, "messages", number=2, role="assistant", text="")
    tell(daemon, "messages", number=3, role="user", text="  \n")
    wait_until(lambda: made(daemon) == [("empty message", None)], 10)
    daemon.client.post(f"{API}/sessions/S1/close")
    wait_until(lambda: made(daemon)[1:] == [("closed", "S1 closed")], 10)
    daemon.client.post(f"{API}/sessions/S1/reopen")
    tell(daemon, "messages", number=4, role="user", text="")
    wait_until(lambda: [name for name, _ in made(daemon)] == ["empty message", "closed", "empty message"], 10)


def test_imported_messages_and_launches_are_history(daemon: Daemon) -> None:
    content = Path(__file__).parent.parent.joinpath("data", "reference-session.jsonl").read_bytes()
    daemon.client.post(f"{API}/import", params={"name": "x"}, content=content)
    tell(daemon, "messages", number=4701, role="user", text="")
    wait_until(lambda: made(daemon), 10)
    assert made(daemon) == [("empty message", None)]


def happened(kind: str, subject: str, session_id: int | None = 1, **more: Any) -> Happened:
    return Happened(kind, subject, session_id, more.pop("data", {}), **more)


def test_what_happens_together_is_told_together() -> None:
    ready = {"state": "ready"}
    found = [
        happened("launch.changed", "L1", data=ready),
        happened("launch.changed", "L2", data=ready),
        happened("launch.changed", "L2", data=ready),
        happened("launch.changed", "L3", data={"state": "loading"}),
        happened("launch.changed", "L4", 2, data={"state": "lost"}),
        happened("launch.changed", "L5", None, data=ready),
        happened("finding.created", "F1", 3),
    ]
    assert triggers(found) == {1: Trigger("ready", ("L1 ready", "L2 ready")), 2: Trigger("lost", ("L4 lost",))}
    closed = happened("session.changed", "S1", closed=True)
    assert triggers([*found, closed])[1] == Trigger("closed", ("S1 closed",))
