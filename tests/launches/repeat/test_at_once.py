"""A restart that a user asks for and one that the daemon completes do not meet over one launch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlmodel import Session

from sitrepd.clock import utc_now
from sitrepd.errors import Conflict
from sitrepd.launches.models import Launch
from sitrepd.launches.processes import boot_id
from sitrepd.launches.repeat import restart
from sitrepd.launches.repeat.again import RestartIn
from sitrepd.runtime import Runtime
from sitrepd.storage import ids


class CarriedOut:
    """Instead of stopping and starting a server: notes the launch, and waits until it is let go."""

    def __init__(self) -> None:
        self.launches: list[int] = []
        self.begun, self.let_go = asyncio.Event(), asyncio.Event()

    async def __call__(self, runtime: Runtime, row: Launch, *_: Any) -> None:
        self.launches.append(row.id or 0)
        self.begun.set()
        await self.let_go.wait()


complete = restart.complete


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Runtime:
    """Of two launches that have ended, L1 and L2, restarts were asked for by a daemon that is no more."""
    monkeypatch.setattr(restart, "complete", lambda _: asyncio.sleep(0))  # of the application itself
    client: TestClient = request.getfixturevalue("client")
    monkeypatch.setattr(restart.again, "again", lambda *_: None)
    found: Runtime = client.app.state.runtime  # type: ignore[attr-defined]
    found.store.write(_two_launches)
    return found


def _two_launches(db: Session) -> None:
    now, numbers = utc_now(), [ids.allocate(db, "launch") for _ in range(2)]
    for number in numbers:
        row = Launch(id=number, at=now, ended_at=now, command="./serve", state="exited", provenance="user")
        row.watched, row.process = True, {"identity": {"boot_id": boot_id()}}
        db.add(row)
        db.flush()
        restart._remember(db, number, RestartIn(), None, "user")


def _meant(runtime: Runtime) -> list[int]:
    with runtime.store.read() as db:
        rows = [db.get(Launch, number) for number in (1, 2)]
        return [row.id or 0 for row in rows if row is not None and "restart" in (row.process or {})]


def test_what_is_being_completed_is_not_restarted_too(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    async def both() -> None:
        carried = CarriedOut()
        monkeypatch.setattr(restart, "_carry_out", carried)
        completing = asyncio.create_task(complete(runtime))
        await asyncio.wait({completing, asyncio.create_task(carried.begun.wait())}, return_when=asyncio.FIRST_COMPLETED)
        with runtime.store.read() as db:
            row = db.get(Launch, 1)
        assert row is not None
        with pytest.raises(Conflict, match="L1 is being restarted already"):
            await restart.restart(runtime, row, RestartIn(), None, "user")
        carried.let_go.set()
        await completing
        assert carried.launches == [1, 2]

    asyncio.run(both())
    assert runtime.live["restarting"] == set()
    assert _meant(runtime) == []


@pytest.mark.parametrize("meanwhile", ["done", "doing", "deleted"])
def test_what_somebody_else_has_restarted_meanwhile_is_left(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    job: Callable[[Session], None] = {
        "done": lambda db: restart._forget(db, 2),
        "doing": lambda _: runtime.live["restarting"].add(2),
        "deleted": lambda db: db.delete(db.get(Launch, 2)),
    }[meanwhile]

    async def both() -> None:
        carried = CarriedOut()
        monkeypatch.setattr(restart, "_carry_out", carried)
        completing = asyncio.create_task(complete(runtime))
        await asyncio.wait({completing, asyncio.create_task(carried.begun.wait())}, return_when=asyncio.FIRST_COMPLETED)
        await runtime.store.write_async(job)
        carried.let_go.set()
        await completing
        assert carried.launches == [1]

    asyncio.run(both())
    assert _meant(runtime) == ([2] if meanwhile == "doing" else [])
