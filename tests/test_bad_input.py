"""What a caller may get wrong in any noun: it is told the place and what would be right, and the daemon goes on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

API = "/api/v1"
HUGE = 10**20


@pytest.fixture
def session(client: TestClient) -> TestClient:
    client.post(f"{API}/sessions", json={"name": "s"}).raise_for_status()
    client.post(f"{API}/findings", json={"kind": "decision", "title": "t", "status": "confirmed"}).raise_for_status()
    return client


@pytest.mark.parametrize(
    ("path", "body", "place"),
    [
        ("next-steps", {"text": "x", "order": HUGE}, "order"),
        ("sessions", {"name": "x", "started_at": "0001-01-01T00:00:00+14:00"}, "started_at"),
        ("findings", {"kind": "decision", "title": "t", "at": "9999-12-31T23:00:00-14:00"}, "at"),
        ("launches", {"start": False, "command": "x", "exit_code": HUGE}, "exit_code"),
        ("launches", {"start": False, "command": "x", "phases": [{"name": "p", "done": HUGE}]}, "phases.0.done"),
        ("launches", {"argv": ["sleep", "1"], "env": {"A=B": "x"}}, "env: 'A=B'"),
        ("launches", {"argv": ["sleep", "1"], "env": {"A": "\0"}}, "env.A"),
        ("launches", {"argv": ["sleep", "\0"]}, "argv.1"),
        ("launches", {"command": "sleep 1", "ready_url": "file:///etc/hostname"}, "ready_url"),
    ],
)
def test_a_value_out_of_range_is_named(session: TestClient, path: str, body: dict[str, Any], place: str) -> None:
    answer = session.post(f"{API}/{path}", json=body)
    assert answer.status_code == 422
    assert place in answer.json()["detail"]
    assert session.get(f"{API}/launches").json()["count"] == 0


@pytest.mark.parametrize("cursor", ["9" * 30, "²", "-1", "x"])
@pytest.mark.parametrize("path", ["findings", "checkpoints", "messages"])
def test_a_cursor_that_is_not_ours_is_refused(session: TestClient, path: str, cursor: str) -> None:
    answer = session.get(f"{API}/{path}", params={"cursor": cursor})
    assert answer.status_code == 422
    assert "next_cursor" in answer.json()["detail"]


@pytest.mark.parametrize("number", ["9" * 30, "²"])
def test_a_number_that_no_row_can_have_is_unknown(session: TestClient, number: str) -> None:
    assert session.get(f"{API}/messages/{number}").status_code == 404
    assert session.get(f"{API}/events", params={"after": number}).status_code == 422


@pytest.mark.parametrize(
    ("path", "body"),
    [("findings/F1", {"status": None}), ("findings/F1", {"evidence": None}), ("sessions/S1", {"started_at": None})],
)
def test_what_always_has_a_value_cannot_be_emptied(session: TestClient, path: str, body: dict[str, Any]) -> None:
    answer = session.patch(f"{API}/{path}", json=body)
    assert answer.status_code == 422
    assert f"{next(iter(body))} cannot be emptied" in answer.json()["detail"]


def test_a_finding_cannot_replace_itself(session: TestClient) -> None:
    answer = session.patch(f"{API}/findings/F1", json={"supersedes": "F1"})
    assert answer.status_code == 422
    assert session.get(f"{API}/findings/F1").json()["status"] == "confirmed"


def test_a_finding_that_later_replaces_another_supersedes_it(session: TestClient) -> None:
    session.post(f"{API}/findings", json={"kind": "decision", "title": "new"}).raise_for_status()
    session.patch(f"{API}/findings/F2", json={"supersedes": "F1"}).raise_for_status()
    assert session.get(f"{API}/findings/F1").json()["status"] == "superseded"


def test_what_is_no_json_is_named_with_its_place(client: TestClient) -> None:
    answer = client.post(f"{API}/sessions", content='{"name": x}', headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert answer.json()["detail"] == "body: not valid JSON (Expecting value at character 9)."


def test_a_log_that_is_a_pipe_is_not_waited_for(session: TestClient, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")
    told = {"start": False, "command": "x", "log_path": str(tmp_path / "log")}
    launch = session.post(f"{API}/launches", json=told).json()["id"]
    answer = session.get(f"{API}/launches/{launch}/log")
    assert answer.status_code == 409
    assert "no file" in answer.json()["detail"]


def test_what_ends_before_it_begins_is_refused(session: TestClient) -> None:
    times = {"started_at": "2026-12-02T00:00:00Z", "ended_at": "2026-12-01T00:00:00Z"}
    for answer in (
        session.post(f"{API}/sessions", json={"name": "two", **times}),
        session.patch(f"{API}/sessions/S1", json=times),
        session.patch(f"{API}/sessions/S1", json={"ended_at": "2001-01-01T00:00:00Z"}),
    ):
        assert answer.status_code == 422, answer.text
        assert "is before started_at" in answer.json()["detail"]
        assert answer.json()["errors"][0]["field"] == "ended_at"
    assert session.get(f"{API}/sessions").json()["count"] == 1
    assert "ended_at" not in session.get(f"{API}/sessions/S1").json()
    assert session.patch(f"{API}/sessions/S1", json={"ended_at": "2036-12-01T00:00:00Z"}).status_code == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None])
def test_json_that_is_called_something_else_is_told_what_to_send(client: TestClient, kind: str | None) -> None:
    headers = {"Content-Type": kind} if kind else {}
    answer = client.post(f"{API}/sessions", content=b'{"name": "x"}', headers=headers)
    assert answer.status_code == 415
    assert "Content-Type: application/json" in answer.json()["detail"]
    assert (kind or "no type") in answer.json()["detail"]


def test_json_that_is_no_object_is_told_so(client: TestClient) -> None:
    answer = client.post(f"{API}/sessions", json=["x"])
    assert (answer.status_code, answer.json()["title"]) == (422, "Invalid input")


def test_a_method_that_a_path_lacks_is_told_the_others(client: TestClient) -> None:
    answer = client.delete(f"{API}/findings")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST")
    assert answer.json()["detail"] == f"DELETE is not possible at {API}/findings; possible: GET, POST."
