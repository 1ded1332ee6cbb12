"""The event stream of a tab, from a real daemon."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import pytest
from tests.daemons import Daemon
from tests.helpers import PATIENCE_S

Message = tuple[str, str, str]


class Stream:
    """Messages as (event, data, id); reading ends with the stream."""

    def __init__(self, answer: httpx2.Response) -> None:
        self._lines = answer.iter_lines()

    def __iter__(self) -> Iterator[Message]:
        event, data, number = "", "", ""
        for line in self._lines:
            if not line:
                if event or data:
                    yield event, data, number
                event, data, number = "", "", ""
            elif not line.startswith(":"):
                name, _, value = line.partition(": ")
                event = value if name == "event" else event
                data = value if name == "data" else data
                number = value if name == "id" else number

    def until(self, wanted: str) -> list[Message]:
        seen = []
        for message in self:
            seen.append(message)
            if message[0] == wanted:
                return seen
        raise AssertionError(f"the stream ended after {seen}")


@contextmanager
def streaming(daemon: Daemon, query: str, **headers: str) -> Iterator[Stream]:
    with daemon.tcp.stream("GET", f"/stream?{query}", headers=headers, timeout=PATIENCE_S) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-cache"
        yield Stream(answer)


def last_event(daemon: Daemon) -> int:
    events: list[dict[str, int]] = daemon.client.get("/api/v1/events").json()
    return events[-1]["id"]


def test_a_told_fact_names_its_part(told: Daemon) -> None:
    with streaming(told, f"session=S1&after={last_event(told)}") as stream:
        told.client.post("/api/v1/sessions/S1/directives", json={"text": "Be quick."})
        seen = stream.until("part-directives")
        assert {name for name, _, _ in seen} <= {"live", "part-directives", "part-gpus"}


def test_nothing_between_the_page_and_the_stream_is_missed(told: Daemon) -> None:
    before = last_event(told)
    told.client.post("/api/v1/sessions/S1/findings", json={"kind": "observation", "title": "between"})
    with streaming(told, f"session=S1&after={before}") as stream:
        stream.until("part-findings")


def test_a_tab_that_comes_back_goes_on_where_it_was(told: Daemon) -> None:
    before = last_event(told)
    told.client.post("/api/v1/sessions/S1/findings", json={"kind": "observation", "title": "meanwhile"})
    with streaming(told, "session=S1&after=0", **{"Last-Event-ID": str(before)}) as stream:
        seen = [name for name, _, _ in stream.until("part-findings")]
    assert "part-directives" not in seen


def test_the_last_message_of_a_batch_carries_the_place(told: Daemon) -> None:
    with streaming(told, "session=S1&after=0") as stream:
        seen = []
        for message in stream:
            seen.append(message)
            if message[2]:
                break
    assert [name for name, _, number in seen if number] == [seen[-1][0]]
    assert int(seen[-1][2]) == last_event(told)


def test_facts_of_another_session_are_not_its_business(told: Daemon) -> None:
    told.client.post("/api/v1/sessions", json={"name": "other"})
    with streaming(told, f"session=S1&after={last_event(told)}") as stream:
        told.client.post("/api/v1/sessions/S2/directives", json={"text": "theirs"})
        told.client.post("/api/v1/sessions/S1/findings", json={"kind": "observation", "title": "ours"})
        seen = [name for name, _, _ in stream.until("part-findings")]
    assert "part-directives" not in seen


@pytest.mark.slow
def test_a_storm_of_facts_becomes_few_messages(told: Daemon) -> None:
    with streaming(told, f"session=S1&after={last_event(told)}") as stream:
        began = time.monotonic()
        for number in range(60):
            told.client.post("/api/v1/sessions/S1/findings", json={"kind": "observation", "title": f"fact {number}"})
        told.client.post("/api/v1/sessions/S1/artifacts", json={"path": "/end"})
        seen = [name for name, _, _ in stream.until("part-things")]
        took = time.monotonic() - began
    assert 1 <= seen.count("part-findings") <= took * 2 + 2


def test_the_list_of_sessions_has_a_stream_too(told: Daemon) -> None:
    with streaming(told, f"after={last_event(told)}") as stream:
        told.client.post("/api/v1/sessions/S1/directives", json={"text": "not for the list"})
        told.client.post("/api/v1/sessions", json={"name": "one more"})
        seen = [name for name, _, _ in stream.until("part-home")]
    assert [name for name in seen if name != "live"] == ["part-home"]


def test_a_page_of_another_store_is_loaded_anew(told: Daemon) -> None:
    with streaming(told, "session=S1&after=100000") as stream:
        stream.until("reload")


def test_a_page_of_another_edition_is_loaded_anew(told: Daemon) -> None:
    with streaming(told, "session=S1&edition=older") as stream:
        assert [name for name, _, _ in stream] == ["reload"]


def test_an_unknown_session_has_no_stream(told: Daemon) -> None:
    answer = told.tcp.get("/stream?session=S77")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("number", ["x", "-1", "9" * 30, ""])
def test_a_strange_last_event_id_is_passed_over(told: Daemon, number: str) -> None:
    query = f"session=S1&after={last_event(told)}"
    with streaming(told, query, **{"Last-Event-ID": number[:20]}) as stream:
        told.client.post("/api/v1/sessions/S1/directives", json={"text": "x"})
        stream.until("part-directives")


def test_values_are_told_once_and_then_only_when_they_move(told: Daemon) -> None:
    with streaming(told, f"session=S1&after={last_event(told)}") as stream:
        (first,) = [data for name, data, _ in stream.until("live") if name == "live"]
        assert json.loads(first)["title"] == ""
        told.client.post("/api/v1/sessions/S1/directives", json={"text": "x"})
        later = [json.loads(data) for name, data, _ in stream.until("part-directives") if name == "live"]
    assert all("title" not in values for values in later)


def test_the_stream_ends_with_the_daemon(daemon: Daemon) -> None:
    with streaming(daemon, "after=0") as stream:
        stream.until("live")
        assert daemon.process is not None
        daemon.process.terminate()
        list(stream)  # One that was cut off at the end of the daemon's patience would raise.
    assert daemon.end() == 0
