"""A session in the order in which it happened."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.checkpoints.telling import API, make, tell, tell_reference
from tests.history.conftest import ask, change

LINES = """
{"type": "session", "name": "w", "started_at": "2026-03-01T08:00:00Z", "at": "2026-03-01T08:00:00Z"}
{"type": "launch", "key": "l", "command": "python -m sglang.launch_server", "at": "2026-03-01T09:00:00Z", "state": "failed", "ready_at": "2026-03-01T09:15:00Z", "ended_at": "2026-03-01T10:00:00Z", "phases": [{"name": "load_weights", "started_at": "2026-03-01T09:01:00Z"}]}
{"type": "benchmark", "name": "first", "at": "2026-03-01T09:20:00Z", "launch": "l", "metrics": {"output_throughput": 90.0}}
{"type": "message", "number": 1, "role": "user", "text": "go on", "at": "2026-03-01T09:30:00Z"}
{"type": "finding", "kind": "root_cause", "title": "out of memory", "at": "2026-03-01T10:05:00Z"}
"""


@pytest.fixture
def past(client: TestClient) -> TestClient:
    """A session that happened in March."""
    client.post(f"{API}/import", content=LINES).raise_for_status()
    return client


def moments(client: TestClient, **asked: Any) -> list[tuple[str, str]]:
    found = ask(client, "/sessions/S1/timeline", **asked)["data"]
    assert found == sorted(found, key=lambda one: one["at"], reverse=asked.get("order") == "newest")
    return [(one["id"], one["what"]) for one in found]


def test_facts_stand_at_their_own_times(past: TestClient) -> None:
    assert moments(past) == [
        ("S1", "opened"), ("L1", "started"), ("L1", "ready"), ("B1", "measured"), ("L1", "failed"), ("F1", "told"),
    ]  # fmt: skip


def test_what_was_imported_without_a_time_is_said_so(client: TestClient) -> None:
    """The time of the import is neither that of a start nor of a measurement."""
    tell_reference(client)
    told = dict(moments(client, kind=["launch", "benchmark", "directive"]))
    assert told == dict.fromkeys(("L1", "B1", "B2", "B3", "B4", "D1", "D2", "D3"), "imported (no time)")


def test_changes_checkpoints_and_deliveries_are_moments_too(past: TestClient) -> None:
    make(past)
    change(past, "/findings/F1", status="confirmed")
    past.post(f"{API}/sessions/S1/resume", json={"to": "opencode"}).raise_for_status()
    past.post(f"{API}/sessions/S1/echo", json={"text": "From C1."}).raise_for_status()
    past.post(f"{API}/sessions/S1/close").raise_for_status()
    found = ask(past, "/sessions/S1/timeline", since="2026-04-01T00:00:00Z")["data"]
    assert [(one["id"], one["what"]) for one in found][:4] == [
        ("C1", "written"), ("F1", "changed"), ("1", "handed over"), ("1", "echoed"),
    ]  # fmt: skip
    assert found[1]["fields"] == {"status": {"old": "open", "new": "confirmed"}}
    assert ("S1", "closed") in [(one["id"], one["what"]) for one in found]


def test_filters(past: TestClient) -> None:
    for asked, ids in (
        ({"kind": "benchmark"}, ["B1"]),
        ({"kind": ["findings", "benchmarks"]}, ["B1", "F1"]),
        ({"kind": "message"}, ["1"]),
        ({"kind": "phase"}, ["L1"]),
        ({"fact": "L1"}, ["L1", "L1", "L1", "L1"]),
        ({"since": "2026-03-01T09:15:00Z", "until": "2026-03-01T09:20:00Z"}, ["L1", "B1"]),
        ({"since": "2027-01-01T00:00:00Z"}, []),
    ):
        assert (asked, [one for one, _ in moments(past, **asked)]) == (asked, ids)


@pytest.mark.slow
def test_pages_follow_each_other_also_where_times_are_the_same(told: TestClient) -> None:
    make(told)
    change(told, "/findings/F2", status="confirmed")
    for order, limit in (("oldest", 1), ("oldest", 7), ("newest", 1), ("newest", 2), ("newest", 7)):
        _pages_are_the_whole(told, order, limit)


def _pages_are_the_whole(told: TestClient, order: str, limit: int) -> None:
    whole = moments(told, order=order, limit=1000)
    seen: list[tuple[str, str]] = []
    cursor: dict[str, str] = {}
    while True:
        page = ask(told, "/sessions/S1/timeline", order=order, limit=limit, **cursor)
        seen += [(one["id"], one["what"]) for one in page["data"]]
        if "next_cursor" not in page:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert seen == whole
    assert len(set(whole)) == len(whole) > 20


def test_what_cannot_be_asked(past: TestClient) -> None:
    for asked in [{"cursor": "x"}, {"cursor": "1.2"}, {"kind": "wish"}, {"fact": "Z1"}, {"since": "today"}]:
        assert past.get(f"{API}/sessions/S1/timeline", params=asked).status_code == 422


def test_another_session_has_its_own(past: TestClient) -> None:
    tell(past, "sessions", name="another")
    past.post(f"{API}/sessions/S2/directives", json={"text": "only here"}).raise_for_status()
    assert [one for one, _ in moments(past)] == ["S1", "L1", "L1", "B1", "L1", "F1"]
    found = ask(past, "/sessions/S2/timeline")["data"]
    assert {one["id"] for one in found} == {"S2", "D1"}
