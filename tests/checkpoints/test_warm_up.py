"""A daemon that has started tries out a checkpoint, of which nothing is left but that the next one is quick."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.checkpoints.telling import API, tell, tell_reference

from sitrepd.checkpoints import warm_up
from sitrepd.checkpoints.service import Checkpoints, checkpoints


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_up, "_AFTER_S", 0.0)


def run(client: TestClient) -> None:
    app: Any = client.app
    asyncio.run(warm_up.WarmUp(app.state.runtime).run())


def test_nothing_is_told_of_it(client: TestClient) -> None:
    tell_reference(client)
    app: Any = client.app
    run(client)
    assert checkpoints(app.state.runtime).templates._kept._texts
    assert not any(event["kind"].startswith("checkpoint.") for event in client.get(f"{API}/events").json())
    assert client.get(f"{API}/checkpoints").json()["data"] == []
    assert client.post(f"{API}/sessions/current/checkpoints").json()["id"] == "C1"


def test_it_is_of_the_session_that_was_opened_last(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []
    monkeypatch.setattr(Checkpoints, "try_out", lambda _self, session_id: tried.append(session_id))
    run(client)
    assert tried == []
    for name in ("one", "two", "three"):
        tell(client, "sessions", name=name)
    assert client.post(f"{API}/sessions/S3/close").status_code == 200
    run(client)
    assert tried == [2]
