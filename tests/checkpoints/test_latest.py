"""`GET …/checkpoints/latest`: the stored bytes, conditionally, in the format that is asked for."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient
from tests.checkpoints.telling import API, LATEST, make, tell, tell_reference


def test_a_first_one_is_made_and_then_the_same_bytes_are_served(client: TestClient) -> None:
    tell_reference(client)
    first = client.get(LATEST)
    assert first.headers["content-type"] == "text/markdown; charset=utf-8"
    assert first.headers["content-location"] == "/api/v1/checkpoints/C1"
    assert "trigger asked" in first.text.split("\n")[0]
    again = client.get(LATEST)
    assert (again.content, again.headers["etag"]) == (first.content, first.headers["etag"])
    assert client.get(f"{API}/checkpoints/C1", params={"format": "md"}).content == first.content
    assert client.get(f"{API}/checkpoints").json()["count"] == 1


def test_an_etag_saves_the_transfer_until_there_is_a_new_one(client: TestClient) -> None:
    tell_reference(client)
    etag = client.get(LATEST).headers["etag"]
    for told in (etag, f'"x", {etag}', f"W/{etag}", "*"):
        answer = client.get(LATEST, headers={"if-none-match": told})
        assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", etag)
    assert client.get(LATEST, headers={"if-none-match": '"x"'}).status_code == 200
    assert client.get(LATEST, params={"budget": 2000}, headers={"if-none-match": etag}).status_code == 200
    tell(client, "directives", text="x")
    assert client.get(LATEST, headers={"if-none-match": etag}).status_code == 304
    make(client)
    answer = client.get(LATEST, headers={"if-none-match": etag})
    assert (answer.status_code, answer.headers["x-sitrep-checkpoint"]) == (200, "C2")
    stored = client.get(f"{API}/checkpoints/C1", params={"format": "md"}, headers={"if-none-match": etag})
    assert stored.status_code == 304


@pytest.mark.slow
@pytest.mark.parametrize(
    ("accept", "media"),
    [
        ("*/*", "text/markdown"), ("text/html,application/xhtml+xml", "text/html"), ("application/json", "application/json"),
        ("text/plain", "text/plain"), ("text/markdown", "text/markdown"), ("image/png", "text/markdown"),
        ("text/html;q=0, text/plain", "text/plain"),
    ],
)  # fmt: skip
def test_the_format_is_what_accept_asks_for(client: TestClient, accept: str, media: str) -> None:
    tell(client, "sessions", name="s")
    answer = client.get(LATEST, headers={"accept": accept})
    assert answer.headers["content-type"].split(";")[0] == media
    assert answer.headers["vary"] == "Accept"
    told = client.get(LATEST, params={"format": "txt"}, headers={"accept": accept})
    assert told.headers["content-type"].startswith("text/plain")


def test_a_page_may_load_nothing(client: TestClient) -> None:
    tell(client, "sessions", name="s")
    answer = client.get(LATEST, params={"format": "html"})
    assert answer.headers["content-security-policy"] == "default-src 'none'; style-src 'unsafe-inline'"
    assert answer.text.startswith("<!doctype html>")
    assert "prefers" in answer.text or "color-scheme: light dark" in answer.text


@pytest.mark.parametrize(
    ("params", "word"),
    [({"format": "pdf"}, "format='pdf'"), ({"budget": "10"}, "at least 1000"), ({"budget": ""}, "budget=''"), ({"budget": "x"}, "2000t")],
)  # fmt: skip
def test_what_cannot_be_had_is_told(client: TestClient, params: dict[str, str], word: str) -> None:
    tell(client, "sessions", name="s")
    for url in (LATEST, f"{API}/checkpoints/{make(client)['id']}"):
        answer = client.get(url, params=params)
        assert answer.status_code == 422
        assert answer.headers["content-type"] == "application/problem+json"
        assert word in answer.json()["detail"]


def test_an_ambiguous_session_is_not_guessed(client: TestClient) -> None:
    tell(client, "sessions", name="one")
    assert client.get(LATEST).status_code == 200
    tell(client, "sessions", name="two")
    for _ in range(2):
        answer = client.get(LATEST)
        assert answer.status_code == 409
        assert [one["name"] for one in answer.json()["sessions"]] == ["one", "two"]
    for how in ({"headers": {"x-sitrep-session": "two"}}, {"params": {"session": "S2"}}):
        assert "S2 two" in client.get(LATEST, **how).text
    assert "S1 one" in client.get(f"{API}/sessions/S1/checkpoints/latest", headers={"x-sitrep-session": "S2"}).text
    client.post(f"{API}/sessions/S1/close")
    assert "S2 two" in client.get(LATEST).text
    client.post(f"{API}/sessions/S2/close")
    assert client.get(LATEST).status_code == 409


def test_the_folder_says_which_session_is_meant(client: TestClient, tmp_path: object) -> None:
    for name in ("one", "two"):
        tell(client, "sessions", name=name)
    headers = {b"x-sitrep-cwd": f"{tmp_path}/ä".encode()}
    assert client.get(LATEST, headers=headers).status_code == 409
    client.post(f"{API}/sessions/S2/folders", json={"path": str(tmp_path)})
    assert "S2 two" in client.get(LATEST, headers=headers).text


def test_unknown_ones(client: TestClient) -> None:
    tell(client, "sessions", name="s")
    assert client.get(f"{API}/sessions/S9/checkpoints/latest").status_code == 404
    answer = client.get(f"{API}/checkpoints/C9")
    assert answer.status_code == 404
    assert "C9" in answer.json()["detail"]


def test_polling_does_not_keep_a_session_awake(client: TestClient) -> None:
    tell(client, "sessions", name="s")
    runtime = client.app.state.runtime  # type: ignore[attr-defined]
    client.get(LATEST)
    before = runtime.activity.last(1)
    client.get(LATEST)
    client.get(f"{API}/checkpoints/C1")
    client.get(f"{API}/checkpoints")
    assert runtime.activity.last(1) == before
    make(client)
    assert runtime.activity.last(1) > before
