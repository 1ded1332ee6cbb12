"""Checkpoints that nobody asks for: while something loads and nothing is told, and when something happens."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.checkpoints.telling import API, latest, make, tell, tell_reference
from tests.daemons import Daemon, application, running_daemon
from tests.helpers import free_port, wait_until
from tests.launches.test_service import command, start, until

from sitrepd import facts
from sitrepd.checkpoints.idle import Happened, Trigger, triggers
from sitrepd.sessions.models import MessageCreate
from sitrepd.settings import load_settings
from sitrepd.slices import load_registry
from sitrepd.storage.store import Store

SCALED = {"idle_after_s": 0.5, "idle_check_s": 0.1}  # thirty seconds of idling are half a second here


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with running_daemon(tmp_path / "store", **SCALED) as found:
        yield found


def made(client: Any) -> list[tuple[str, str | None]]:
    """Trigger and cause of all checkpoints, oldest first."""
    listed = client.get(f"{API}/checkpoints").json()["data"][::-1]
    full = [client.get(f"{API}/checkpoints/{one['id']}").json() for one in listed]
    return [(one["trigger"], one["rendered"]["cause"]) for one in full]


def causes(client: Any, trigger: str) -> list[str | None]:
    return [cause for name, cause in made(client) if name == trigger]


def newest_is_old(client: Any, seconds: float) -> bool:
    newest = client.get(f"{API}/checkpoints", params={"limit": 1}).json()["data"][0]
    return (datetime.now(UTC) - datetime.fromisoformat(newest["at"])).total_seconds() > seconds


def test_a_session_that_idles_while_a_server_loads_is_written_down_once(daemon: Daemon, tmp_path: Path) -> None:
    client: Any = daemon.client
    tell(client, "sessions", name="s")
    start(daemon, command=command(free_port(), tmp_path / "log", 30), cwd=str(tmp_path), name="three steps")
    until(daemon, "L1", "loading")
    (cause,) = wait_until(lambda: causes(client, "idle"))
    assert cause in ("L1 starting", "L1 loading")
    text = latest(client)
    assert "- L1 three steps is " in text
    assert "time left" in text
    assert "--speculative-num-steps 3" in text
    tell(client, "messages", number=1, role="user", text="still there?")
    wait_until(lambda: len(causes(client, "idle")) == 2)
    wait_until(lambda: newest_is_old(client, 1.0))
    assert len(causes(client, "idle")) == 2
    delta = client.post(f"{API}/sessions/current/resume").text.split("\n\n")[1]
    assert "- L1 three steps is loading now: " in delta or "is capturing now" in delta


def test_the_states_that_a_launch_ends_up_in_are_written_down(daemon: Daemon, tmp_path: Path) -> None:
    client: Any = daemon.client
    tell(client, "sessions", name="s")
    start(daemon, command=command(free_port(), tmp_path / "log", 2), cwd=str(tmp_path))
    until(daemon, "L1", "ready")
    wait_until(lambda: causes(client, "ready") == ["L1 ready"])
    client.post(f"{API}/launches/L1/stop", json={"grace_s": 2, "wait_s": 10})
    wait_until(lambda: causes(client, "exited") == ["L1 exited"])
    text = latest(client)
    assert "- No launch of this session is alive, as far as is known" in text
    assert "- L1 exited" in text
    run = f"python3 -c 'import sys; print(\"CUDA error: out of memory\"); sys.exit(3)' > {tmp_path / 'out'} 2>&1"
    start(daemon, command=run, cwd=str(tmp_path), name="broken")
    wait_until(lambda: causes(client, "failed") == ["L2 failed"])
    assert "- L2 broken failed with exit code 3" in latest(client)


def test_an_empty_message_and_the_end_of_a_session_are_written_down(client: TestClient) -> None:
    tell(client, "sessions", name="s")
    tell(client, "messages", number=1, role="user", text="hello")
    tell(client, "messages", number=2, role="assistant", text="")
    tell(client, "messages", number=3, role="user", text="  \n")
    wait_until(lambda: made(client) == [("empty message", None)])
    client.post(f"{API}/sessions/S1/close")
    wait_until(lambda: made(client)[1:] == [("closed", "S1 closed")])
    client.post(f"{API}/sessions/S1/reopen")
    tell(client, "messages", number=4, role="user", text="")
    wait_until(lambda: [name for name, _ in made(client)] == ["empty message", "closed", "empty message"])


def test_imported_messages_and_launches_are_history(client: TestClient) -> None:
    tell_reference(client)
    tell(client, "messages", number=4701, role="user", text="")
    wait_until(lambda: made(client))
    assert made(client) == [("empty message", None)]


def test_what_a_dead_daemon_missed_is_written_down_by_the_next(tmp_path: Path) -> None:
    with application(tmp_path / "store") as client:
        tell(client, "sessions", name="s")
        make(client)
    store, registry = Store(load_settings(data_dir=tmp_path / "store")), load_registry()
    message = MessageCreate.model_validate({"number": 1, "role": "user", "text": ""})
    store.write(lambda db: facts.tell(db, registry.by_word["message"], message, facts.Scope(registry, "told:x", 1)))
    store.close()
    with application(tmp_path / "store") as client:
        wait_until(lambda: made(client) == [("asked", None), ("empty message", None)])


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
