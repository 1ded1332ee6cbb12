"""What is too old is dropped; what is pinned, named, cited or the latest never is."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlmodel import Session, select, update
from tests.checkpoints.telling import API, make, tell
from tests.daemons import application
from tests.helpers import wait_until
from tests.history.conftest import ask, change, found

from sitrepd.checkpoints import deliver
from sitrepd.checkpoints.changes import Changes, Since, changes_since
from sitrepd.checkpoints.models import Checkpoint, Delivery
from sitrepd.clock import utc_now
from sitrepd.history import retention
from sitrepd.sessions.models import SessionRow
from sitrepd.storage.base import Event


@pytest.fixture
def short(tmp_path: Path) -> Iterator[TestClient]:
    """A store that keeps little, with a session that has eight checkpoints."""
    with application(tmp_path / "store", checkpoints_keep=2, checkpoints_keep_d=0, deliveries_keep=3) as client:
        tell(client, "sessions", name="s")
        for number in range(8):
            tell(client, "directives", text=f"wish {number}")
            make(client)
        yield client


def kept(client: TestClient) -> list[str]:
    return [one["id"] for one in ask(client, "/checkpoints")["data"]][::-1]


def drop(client: TestClient) -> dict[str, Any]:
    answer = client.post(f"{API}/retention")
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def write(client: TestClient, job: Any) -> None:
    client.app.state.runtime.store.write(job)  # type: ignore[attr-defined]


def test_only_the_newest_stay(short: TestClient) -> None:
    assert drop(short)["checkpoints"] == ["C1", "C2", "C3", "C4", "C5", "C6"]
    assert kept(short) == ["C7", "C8"]
    assert found(short, "C1") == []
    assert found(short, "C8") == ["C8"]
    assert short.get(f"{API}/checkpoints/C1").status_code == 404
    assert drop(short)["checkpoints"] == []
    tell(short, "directives", text="more")
    assert make(short)["id"] == "C9"


def test_a_dry_run_changes_nothing_and_says_the_same(short: TestClient) -> None:
    plan = ask(short, "/retention")
    assert (plan["dry_run"], len(kept(short))) == (True, 8)
    assert drop(short) == plan | {"dry_run": False}


def test_what_is_pinned_named_or_cited_stays(short: TestClient) -> None:
    change(short, "/checkpoints/C1", pinned=True)
    change(short, "/checkpoints/C2", name="start")
    tell(short, "findings", kind="observation", title="As before", evidence=["C3"])
    tell(short, "next-steps", text="Go back to C4 and compare.")
    short.post(f"{API}/deliveries", json={"checkpoint": "C5", "to": "agent"}).raise_for_status()
    plan = drop(short)
    assert plan["checkpoints"] == ["C6"]
    assert plan["kept"] == {
        "C1": "pinned", "C2": "named 'start'", "C3": "cited by F1", "C4": "cited by N1", "C5": "delivery 1 was not echoed",
    }  # fmt: skip
    change(short, "/deliveries/1", echoed=True)
    change(short, "/checkpoints/C1", pinned=False)
    change(short, "/checkpoints/C2", name=None)
    assert drop(short)["checkpoints"] == ["C1", "C2", "C5"]
    assert kept(short) == ["C3", "C4", "C7", "C8"]


def test_young_ones_stay_whatever_their_number(tmp_path: Path) -> None:
    with application(tmp_path / "store", checkpoints_keep=1, checkpoints_keep_d=2) as client:
        tell(client, "sessions", name="s")
        for number in range(4):
            tell(client, "directives", text=f"wish {number}")
            make(client)
        assert drop(client)["checkpoints"] == []
        old = utc_now() - timedelta(days=3)
        write(client, lambda db: db.exec(update(Checkpoint).where(Checkpoint.id <= 2).values(at=old)))
        assert drop(client)["checkpoints"] == ["C1", "C2"]


def test_the_latest_of_each_session_stays(short: TestClient) -> None:
    tell(short, "sessions", name="another")
    short.post(f"{API}/sessions/S2/checkpoints").raise_for_status()
    drop(short)
    assert kept(short) == ["C7", "C8", "C9"]


def test_an_imported_checkpoint_is_a_told_fact(short: TestClient) -> None:
    line = b'{"type": "checkpoint", "number": 1, "trigger": "idle", "rendered": {}}'
    short.post(f"{API}/import", params={"session": "S1"}, content=line).raise_for_status()
    assert "C9" not in drop(short)["checkpoints"]


@pytest.mark.slow
def test_deliveries_do_not_grow_with_polling(short: TestClient) -> None:
    for number in range(45):
        short.post(f"{API}/sessions/S1/resume", json={"to": f"agent {number % 2}"}).raise_for_status()
    assert ask(short, "/deliveries")["count"] <= 3 + 20
    drop(short)
    assert [one["id"] for one in ask(short, "/deliveries")["data"]] == ["45", "44", "43"]
    events = [one for one in ask(short, "/events", limit=1000) if one["kind"] == "delivery.created"]
    assert [one["subject"] for one in events] == ["43", "44", "45"]


def test_the_log_of_changes_is_kept_for_a_while(short: TestClient) -> None:
    change(short, "/directives/D1", active=False)
    assert make(short)["id"] == "C9"
    long_ago = utc_now() - timedelta(days=400)

    def age(db: Session) -> None:
        last = db.exec(select(Checkpoint.event).where(Checkpoint.id == 8)).one()
        db.exec(update(Event).where(Event.id <= last).values(at=long_ago))

    write(short, age)
    change(short, "/checkpoints/C7", pinned=True)
    count = ask(short, "/retention")["events"]
    assert count > 8
    assert drop(short)["events"] == count
    compared = ask(short, "/checkpoints/C8/diff/C9")
    assert (compared["basis"], [one["id"] for one in compared["gone"]]) == ("events", ["D1"])
    assert ask(short, "/checkpoints/C7/diff/C9")["basis"] == "sections"
    assert found(short, "wish")


def test_echoed_deliveries_go_with_their_checkpoint(short: TestClient) -> None:
    short.post(f"{API}/deliveries", json={"checkpoint": "C1", "to": "agent", "echoed": True}).raise_for_status()
    drop(short)
    with short.app.state.runtime.store.read() as db:  # type: ignore[attr-defined]
        assert db.exec(select(Delivery)).all() == []


def test_it_runs_by_itself(tmp_path: Path) -> None:
    with application(tmp_path / "store", retention_h=5) as client:
        scheduler = client.app.state.runtime.scheduler  # type: ignore[attr-defined]
        job = wait_until(lambda: scheduler.get_job("retention"))
        assert job.trigger.interval == timedelta(hours=5)
        assert job.next_run_time - utc_now() < timedelta(minutes=2)


def test_what_is_told_while_others_are_dropped_keeps_one(short: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    whole = retention._checkpoints

    def look(*told: Any) -> Any:
        looks.append(whole(*told))
        change(short, "/checkpoints/C4", pinned=True)
        return looks[-1]

    monkeypatch.setattr(retention, "_BATCH", 2)
    monkeypatch.setattr(retention, "_checkpoints", look)
    done = drop(short)
    assert (len(looks), [number for number, _ in looks[0].drop]) == (1, [1, 2, 3, 4, 5, 6])
    assert (done["checkpoints"], done["kept"]) == (["C1", "C2", "C3", "C5", "C6"], {"C4": "pinned"})
    assert kept(short) == ["C4", "C7", "C8"]


def _age(client: TestClient, session: int | None = None) -> None:
    """All that happened, and the end of a session, as if it were long ago."""
    long_ago = utc_now() - timedelta(days=400)

    def age(db: Session) -> None:
        db.exec(update(Event).values(at=long_ago))
        db.exec(update(SessionRow).where(SessionRow.id == session).values(ended_at=long_ago))

    write(client, age)


def test_a_closed_session_keeps_the_log_for_as_long_as_anything(short: TestClient) -> None:
    tell(short, "directives", text="after the last checkpoint")
    write(short, lambda db: db.exec(update(SessionRow).values(ended_at=utc_now())))  # and no checkpoint of its end
    tell(short, "sessions", name="another")
    for number in range(30):
        short.post(f"{API}/sessions/S2/directives", json={"text": f"other {number}"}).raise_for_status()
    short.post(f"{API}/sessions/S2/checkpoints").raise_for_status()
    _age(short)
    drop(short)
    with short.app.state.runtime.store.read() as db:  # type: ignore[attr-defined]
        since = db.exec(select(Checkpoint.event).where(Checkpoint.id == 8)).one()
        assert [one.subject for one in changes_since(db, 1, since).added] == ["D9"]  # it was closed today
    _age(short, 1)
    assert drop(short)["events"] >= 30
    short.post(f"{API}/sessions/S1/reopen").raise_for_status()
    with short.app.state.runtime.store.read() as db:  # type: ignore[attr-defined]
        assert changes_since(db, 1, since).forgotten
    handed = short.post(f"{API}/sessions/S1/resume", json={"to": "agent"})
    handed.raise_for_status()
    made = short.post(f"{API}/sessions/S1/checkpoints").json()
    with short.app.state.runtime.store.read() as db:  # type: ignore[attr-defined]
        row = db.get(Checkpoint, int(made["id"][1:]))
        assert row is not None
        assert not changes_since(db, 1, row.event).forgotten
        assert "the log is not kept whole" in str(row.rendered)


def test_what_follows_a_checkpoint_says_that_the_log_is_cut() -> None:
    since = Since("C3", utc_now(), 7)
    (said, *_) = deliver._changed(since, Changes(forgotten=True))
    assert "does not reach back to C3" in said
    assert deliver._changed(since, Changes()) == ["- No fact has changed since C3."]
