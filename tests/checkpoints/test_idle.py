"""Checkpoints that nobody asks for: while something loads and nothing is told, and when something happens."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlmodel import select
from tests.checkpoints.telling import API, latest, make, tell, tell_reference
from tests.daemons import Daemon, application, running_daemon, seed
from tests.helpers import free_port, wait_until
from tests.launches.test_service import command, start, until

from sitrepd import facts
from sitrepd.checkpoints.idle import Watch
from sitrepd.checkpoints.models import Checkpoint
from sitrepd.checkpoints.triggers import Happened, Trigger, triggers
from sitrepd.runtime import Runtime
from sitrepd.sessions.models import MessageCreate, SessionRow
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


@pytest.mark.slow
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
    assert triggers([*found, closed])[1] == Trigger("closed", ("L1 ready", "L2 ready", "S1 closed"))


def test_the_weightiest_of_what_happens_together_names_it_and_all_of_it_is_its_cause() -> None:
    found = [
        happened("directive.created", "D2", told=True),
        happened("benchmark.created", "B3", told=True),
        happened("benchmark.created", "B4"),
        happened("launch.changed", "L1", data={"state": "failed"}),
        happened("benchmark.created", "B5", told=True),
    ]
    assert triggers(found) == {1: Trigger("failed", ("D2 told", "B3 measured", "L1 failed", "B5 measured"))}
    assert triggers(found[:2]) == {1: Trigger("benchmark", ("D2 told", "B3 measured"))}


def test_a_failure_is_told_once_its_cause_was_looked_for() -> None:
    told = Happened("launch.changed", "L1", 1, {"state": "failed", "before": "loading", "looked_into": False})
    assert triggers([told]) == {}
    examined = Happened("launch.changed", "L1", 1, {"looked_into": True, "ended_as": "lost"})
    assert triggers([told, examined]) == {1: Trigger("lost", ("L1 lost",))}


@pytest.fixture
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """The application, in which half a second of quiet is enough."""
    monkeypatch.setenv("SITREP_CHECKPOINT_QUIET_S", "0.5")
    with application(tmp_path / "store") as client:
        yield client


def test_benchmarks_sweeps_and_directives_are_written_down_when_it_is_quiet(quick: TestClient) -> None:
    tell(quick, "sessions", name="s")
    tell(quick, "directives", text="Be exact.")
    for value in (5, 6):
        tell(quick, "benchmarks", metrics={"output_throughput": value})
    wait_until(lambda: made(quick) == [("benchmark", "D1 told, B1 measured, B2 measured")], 10)
    sweep = tell(quick, "sweeps", name="w", state="running")["id"]
    quick.patch(f"{API}/sweeps/{sweep}", json={"state": "done"})
    wait_until(lambda: made(quick)[1:] == [("sweep", f"{sweep} over")], 10)


def test_what_is_weightier_does_not_wait_for_quiet(client: TestClient) -> None:
    tell(client, "sessions", name="s")
    tell(client, "directives", text="Be exact.")
    tell(client, "messages", number=1, role="user", text=" ")
    wait_until(lambda: made(client) == [("empty message", "D1 told")], 10)


@pytest.mark.slow
def test_what_was_imported_or_only_proposed_is_no_trigger(quick: TestClient) -> None:
    tell_reference(quick)
    tell(quick, "directives", text="Perhaps.", proposed=True)
    tell(quick, "benchmarks", metrics={"output_throughput": 5})
    wait_until(lambda: made(quick), 10)
    assert made(quick) == [("benchmark", "B5 measured")]


def test_a_trigger_without_a_change_is_remembered_and_takes_no_number(client: TestClient) -> None:
    tell_reference(client)  # without facts of this machine, which come when they come
    make(client, trigger="before compaction", cause="auto")
    make(client, trigger="after compaction")
    make(client)
    assert made(client) == [("before compaction", "auto")]
    told = client.get(f"{API}/events").json()
    kept = [one for one in told if one["kind"] == "checkpoint.kept"]
    assert [(one["subject"], one["data"]["trigger"]) for one in kept] == [("C1", "after compaction")]


def test_an_open_session_is_written_down_every_so_often(tmp_path: Path) -> None:
    seed(tmp_path)
    store = Store(load_settings(data_dir=tmp_path, checkpoint_every_h=2))
    watch = Watch(Runtime(load_settings(data_dir=tmp_path, checkpoint_every_h=2), store, load_registry()))
    long_ago = datetime.now(UTC) - timedelta(hours=3)
    rows = [
        SessionRow(id=1, name="open", at=long_ago, provenance="told:x"),
        SessionRow(id=2, name="closed", at=long_ago, ended_at=long_ago, provenance="told:x"),
        SessionRow(id=3, name="new", provenance="told:x"),
    ]
    try:
        store.write(lambda db: db.add_all(rows))
        for _ in range(2):
            asyncio.run(watch.check_age())
        with store.read() as db:
            told = db.exec(select(Checkpoint.session_id, Checkpoint.trigger, Checkpoint.rendered)).all()
        assert [(session, trigger, model["cause"]) for session, trigger, model in told] == [
            (1, "periodic", "every 2 h")
        ]
    finally:
        store.close()
