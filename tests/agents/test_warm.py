"""What the first hand-over needs is there before it, once there is a session; and nothing of it is stored."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI
from tests.daemons import application
from tests.helpers import wait_until

from sitrepd.checkpoints.service import checkpoints


def test_a_session_is_tried_out_once_and_nothing_is_stored(tmp_path: Path) -> None:
    with application(tmp_path) as client:
        app = client.app
        assert isinstance(app, FastAPI)
        made = checkpoints(app.state.runtime)
        assert "templates" not in vars(made)
        client.post("/api/v1/sessions", json={"name": "s", "goal": "Find the best."}).raise_for_status()
        wait_until(lambda: "templates" in vars(made))
        assert client.get("/api/v1/checkpoints").json()["data"] == []
