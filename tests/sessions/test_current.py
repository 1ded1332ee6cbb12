"""Which session is meant."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from sitrepd.sessions.current import project_of


@pytest.fixture
def two(client: TestClient) -> TestClient:
    for name in ("first", "second"):
        client.post("/api/v1/sessions", json={"name": name}).raise_for_status()
    return client


def current(client: TestClient, **headers: str):
    return client.get(
        "/api/v1/sessions/current", headers={f"X-Sitrep-{name}": value for name, value in headers.items()}
    )


def test_none_is_open(client: TestClient) -> None:
    told = current(client)
    assert told.status_code == 409
    assert "sitrep session open NAME" in told.json()["detail"]


def test_the_only_open_one(client: TestClient) -> None:
    client.post("/api/v1/sessions", json={"name": "only"})
    assert current(client).json()["id"] == "S1"


def test_never_the_latest(two: TestClient) -> None:
    told = current(two)
    assert told.status_code == 409
    assert [session["id"] for session in told.json()["sessions"]] == ["S1", "S2"]


def test_told_by_id_or_name(two: TestClient) -> None:
    assert current(two, Session="S2").json()["name"] == "second"
    assert current(two, Session="first").json()["id"] == "S1"
    assert current(two, Session="third").status_code == 404


def test_a_closed_one_is_not_meant(two: TestClient) -> None:
    assert two.post("/api/v1/sessions/S1/close").json()["ended_at"]
    assert current(two).json()["id"] == "S2"
    two.post("/api/v1/sessions/S1/reopen")
    assert current(two).status_code == 409


def test_a_folder_is_tied(two: TestClient, tmp_path: Path) -> None:
    (tmp_path / "work" / "deep").mkdir(parents=True)
    tied = two.post("/api/v1/sessions/S2/folders", json={"path": str(tmp_path / "work")})
    assert tied.status_code == 201
    assert current(two, Cwd=str(tmp_path / "work")).json()["id"] == "S2"
    assert current(two, Cwd=str(tmp_path / "work" / "deep")).json()["id"] == "S2"
    assert current(two, Cwd=str(tmp_path)).status_code == 409
    assert current(two, Cwd=str(tmp_path / "work"), Session="S1").json()["id"] == "S1"


def test_a_folder_is_tied_to_one_session(two: TestClient, tmp_path: Path) -> None:
    two.post("/api/v1/sessions/S2/folders", json={"path": str(tmp_path)})
    assert two.post("/api/v1/sessions/S1/folders", json={"path": str(tmp_path)}).status_code == 409
    assert two.post("/api/v1/sessions/S1/folders", json={"path": str(tmp_path), "move": True}).status_code == 201
    assert current(two, Cwd=str(tmp_path)).json()["id"] == "S1"


def test_all_work_trees_of_a_repository_mean_one_session(two: TestClient, tmp_path: Path) -> None:
    main, other = tmp_path / "main", tmp_path / "other"
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-C", str(main)]
    subprocess.run(["git", "init", "-q", str(main)], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    subprocess.run([*git, "worktree", "add", "-q", str(other)], check=True)
    (other / "src").mkdir()
    two.post("/api/v1/sessions/S2/folders", json={"path": str(main)}).raise_for_status()
    assert current(two, Cwd=str(other / "src")).json()["id"] == "S2"
    assert project_of(str(other))[0] == project_of(str(main))[0] == str((main / ".git").resolve())


def test_facts_go_to_the_session_that_is_meant(two: TestClient) -> None:
    assert two.post("/api/v1/directives", json={"text": "x"}).status_code == 409
    told = two.post("/api/v1/directives", json={"text": "x"}, headers={"X-Sitrep-Session": "S2"})
    assert told.json()["session"] == "S2"
    assert two.post("/api/v1/sessions/S1/directives", json={"text": "y"}).json()["session"] == "S1"
    assert two.get("/api/v1/directives", params={"session": "S1"}).json()["count"] == 1
    assert two.get("/api/v1/directives").json()["count"] == 2
