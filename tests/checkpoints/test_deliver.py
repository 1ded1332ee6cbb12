"""Hand-overs: what is new in front of the stored text, within one budget, remembered until they are echoed."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlmodel import Session
from tests.checkpoints.telling import API, make, tell, tell_reference
from tests.helpers import wait_until

from sitrepd.checkpoints.echoes import named
from sitrepd.checkpoints.models import Delivery


def resume(client: TestClient, **body: Any) -> str:
    answer = client.post(f"{API}/sessions/current/resume", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/markdown")
    return answer.text


def deliveries(client: TestClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(f"{API}/deliveries").json()["data"]
    return found[::-1]


def test_it_is_the_stored_text_behind_what_is_new(client: TestClient) -> None:
    tell_reference(client)
    stored = client.get(f"{API}/sessions/current/checkpoints/latest").text
    text = resume(client, budget="full")
    first, delta, rest = text.split("\n\n", 2)
    assert first.startswith("Sitrep C1 · S1 EAGLE-3 for Kimi-K2.5 INT4 · handed over 20")
    assert first.endswith("— name C1 in your first answer.")
    assert delta == "## Since C1\n- No fact has changed since C1."
    assert rest == stored


def test_line_1_is_never_the_same_twice(client: TestClient) -> None:
    tell(client, "sessions", name="s")
    assert len({resume(client).split("\n")[0] for _ in range(5)}) == 5


def test_what_has_changed_since_is_told_by_ids_and_in_full(client: TestClient) -> None:
    tell_reference(client)
    make(client)
    tell(client, "findings", kind="rejected", title="FP8 KV cache", reason="accept rate halves", status="confirmed")
    client.patch(f"{API}/findings/F2", json={"status": "refuted"})
    text = resume(client)
    delta = text.split("\n\n")[1]
    assert "- Added: F3\n- Changed: F2 (status)\n" in delta
    assert "- F3 rejected option (confirmed): FP8 KV cache — reason: accept rate halves" in delta
    assert "- F2 observation (tried, refuted): The scale of the training data" in delta
    assert text.split("\n")[0].startswith("Sitrep C1 ")
    assert len(client.get(f"{API}/checkpoints").json()["data"]) == 1


@pytest.mark.slow
def test_a_launch_that_failed_since_is_told_once(client: TestClient) -> None:
    tell_reference(client)
    make(client)
    number = tell(client, "launches", command="serve --port 1", state="failed", name="big", start=False)["id"]
    new, stored = resume(client, budget="full").split("\nSitrep C1 ")
    assert new.count(f"{number} big failed") == 1
    assert f"{number} big" not in stored


def test_a_new_run_stands_in_a_table_of_its_own(client: TestClient) -> None:
    tell_reference(client)
    make(client)
    tell(client, "benchmarks", name="3 steps", metrics={"output_throughput": 91.5})
    delta = resume(client).partition("## Now")[0]
    assert "- Added: B5\n" in delta
    assert "\n\n| Configuration | output_throughput |" in delta
    assert "\n| B5 3 steps | 91.5 tok/s | +3.0 % |" in delta


@pytest.mark.slow
@pytest.mark.parametrize("budget", [1000, 1500, "500t", "9000"])
def test_the_budget_counts_all_that_is_printed(client: TestClient, budget: int | str) -> None:
    tell_reference(client)
    make(client)
    for number in range(60):
        tell(client, "findings", kind="decision", title=f"decision {number} " * 8)
    text = resume(client, budget=budget)
    assert len(text) <= {"500t": 2000, "9000": 9000}.get(str(budget), budget)
    assert "- Added: F3, F4" in text or "more (`sitrep events`)" in text
    assert "D1: No hacks that cut precision." in text or budget in (1000, 1500)
    assert deliveries(client)[-1]["bytes"] == len(text.encode())


def test_a_delivery_remembers_who_got_what(client: TestClient) -> None:
    tell(client, "sessions", name="s")
    resume(client, to="opencode", budget=4000)
    client.post(f"{API}/sessions/current/resume")
    first, second = deliveries(client)
    assert (first["checkpoint"], first["to"], first["budget"], first["echoed"]) == ("C1", "opencode", 4000, False)
    assert (second["to"], second["budget"]) == ("rest", 9000)


def test_an_echo_is_recognised_in_a_text(client: TestClient) -> None:
    tell(client, "sessions", name="s")
    for _ in range(2):
        resume(client, to="agent")
    tell(client, "directives", text="x")
    make(client)
    resume(client, to="agent")
    echo = client.post(f"{API}/sessions/current/echo", json={"text": "Continuing from C1; C99 and ABC2 are nothing."})
    assert [one["id"] for one in echo.json()["deliveries"]] == ["1", "2"]
    assert [one["echoed"] for one in deliveries(client)] == [True, True, False]
    assert "echoed_at" in deliveries(client)[0]
    assert client.post(f"{API}/sessions/current/echo", json={"text": "nothing"}).json() == {"deliveries": []}


def test_an_echo_is_recognised_in_a_message_of_the_agent(client: TestClient) -> None:
    tell(client, "sessions", name="s")
    resume(client)
    tell(client, "messages", number=1, role="user", text="C1?")
    tell(client, "messages", number=2, role="assistant", text="I go on from C1.")
    wait_until(lambda: deliveries(client)[0]["echoed"])


def test_an_echo_may_be_told(client: TestClient) -> None:
    tell(client, "sessions", name="s")
    make(client)
    told = tell(client, "deliveries", checkpoint="C1", to="codex", budget=9000)
    answer = client.patch(f"{API}/deliveries/{told['id']}", json={"echoed": True}).json()
    assert answer["echoed"]
    assert "echoed_at" in answer
    taken_back = client.patch(f"{API}/deliveries/{told['id']}", json={"echoed": False}).json()
    assert "echoed_at" not in taken_back


def test_a_hand_over_as_json_names_its_parts(client: TestClient) -> None:
    tell(client, "sessions", name="s")
    told = client.post(f"{API}/sessions/current/resume", params={"format": "json"}).json()
    assert (told["checkpoint"], told["delivery"]) == ("C1", "1")
    assert told["text"].startswith("Sitrep C1 · S1 s · handed over ")


@pytest.mark.parametrize("body", [{"budget": 10}, {"budget": "x"}, {"budget": None, "to": ""}, {"who": "x"}])
def test_what_cannot_be_handed_over(client: TestClient, body: dict[str, Any]) -> None:
    tell(client, "sessions", name="s")
    assert client.post(f"{API}/sessions/current/resume", json=body).status_code == 422
    assert client.post(f"{API}/sessions/current/resume", params={"format": "html"}).status_code == 422
    assert deliveries(client) == []


@pytest.mark.parametrize(
    ("plural", "body"),
    [
        ("findings", {"kind": "observation", "title": "As C1 says"}),
        ("findings", {"kind": "observation", "title": "x", "evidence": ["C1"]}),
        ("next-steps", {"text": "Do what C1 has as its first step."}),
        ("benchmarks", {"name": "again", "note": "repeats the best of C1", "metrics": {"x": 1.0}}),
        ("artifacts", {"path": "/data/x", "note": "see C1"}),
        ("commands", {"command": "git commit -m 'Go on from C1'"}),
    ],
)
def test_an_echo_is_recognised_in_any_fact(client: TestClient, plural: str, body: dict[str, Any]) -> None:
    tell(client, "sessions", name="s")
    resume(client, to="agent")
    tell(client, plural, **body)
    wait_until(lambda: deliveries(client)[0]["echoed"], 30)


def test_an_echo_is_recognised_in_a_change(client: TestClient) -> None:
    tell(client, "sessions", name="s")
    tell(client, "findings", kind="observation", title="x")
    resume(client, to="agent")
    client.patch(f"{API}/findings/F1", json={"detail": "Confirmed after C1."}).raise_for_status()
    wait_until(lambda: deliveries(client)[0]["echoed"], 30)


def test_what_the_user_says_and_what_was_imported_is_no_echo(client: TestClient) -> None:
    tell(client, "sessions", name="s")
    resume(client, to="agent")
    tell(client, "directives", text="Go back to C1.")
    line = b'{"type": "finding", "kind": "observation", "title": "C1"}'
    client.post(f"{API}/import", params={"session": "S1"}, content=line).raise_for_status()
    tell(client, "findings", kind="observation", title="the end")
    make(client)
    resume(client, to="other")
    tell(client, "findings", kind="observation", title="From C2")
    wait_until(lambda: deliveries(client)[1]["echoed"], 30)
    assert not deliveries(client)[0]["echoed"]


def test_what_a_command_printed_is_no_echo(client: TestClient) -> None:
    tell(client, "sessions", name="s")
    resume(client, to="agent")
    tell(client, "commands", command="cat SITREP.md", output="Sitrep C1 · S1 s", exit_code=0)
    tell(client, "directives", text="x")
    make(client)
    resume(client, to="other")
    tell(client, "findings", kind="observation", title="From C2")
    wait_until(lambda: deliveries(client)[1]["echoed"], 30)
    assert not deliveries(client)[0]["echoed"]


def test_an_echo_of_one_conversation_leaves_others_waiting(client: TestClient) -> None:
    tell(client, "sessions", name="s")
    for name in ("one", "two"):
        client.post(
            f"{API}/sessions/S1/resume", json={"to": "agent"}, headers={"X-Sitrep-Conversation": name}
        ).raise_for_status()
    answer = client.post(f"{API}/sessions/S1/echo", json={"text": "C1"}, headers={"X-Sitrep-Conversation": "two"})
    assert [one["id"] for one in answer.json()["deliveries"]] == ["2"]
    waiting = client.get(f"{API}/deliveries", params={"waiting": True}).json()
    assert [(one["id"], one["conversation"]) for one in waiting["data"]] == [("1", "one")]


def test_what_waits_was_handed_to_an_agent_from_here(client: TestClient) -> None:
    tell(client, "sessions", name="s")
    for to in ("terminal", "agent", "elsewhere"):
        resume(client, to=to)

    def imported(db: Session) -> None:
        row = db.get(Delivery, 3)
        assert row is not None
        row.imported_from = "another machine"

    client.app.state.runtime.store.write(imported)  # type: ignore[attr-defined]
    assert len(deliveries(client)) == 3
    for path in ("deliveries", "sessions/S1/deliveries"):
        waiting = client.get(f"{API}/{path}", params={"waiting": True}).json()
        assert (waiting["count"], [one["to"] for one in waiting["data"]]) == (1, ["agent"])
    told = resume(client, to="other")
    assert "Delivery 2 of C1 to agent" in told


def test_the_channel_is_remembered(client: TestClient) -> None:
    tell(client, "sessions", name="s")
    resume(client)
    resume(client, channel="mcp")
    client.post(f"{API}/sessions/current/resume", headers={"X-Sitrep-Client": "cli"}).raise_for_status()
    assert [one["channel"] for one in deliveries(client)] == ["http", "mcp", "cli"]


def test_what_was_not_echoed_is_said_at_the_next_hand_over_and_in_the_next_checkpoint(client: TestClient) -> None:
    tell(client, "sessions", name="s")
    resume(client, to="opencode")
    text = resume(client, to="codex")
    assert "\n- Delivery 1 of C1 to opencode, " in text
    assert "was not echoed: it may not have arrived.\n" in text
    tell(client, "directives", text="x")
    assert "Delivery 2 of C1 to codex at 20" in make(client)["markdown"]
    client.post(f"{API}/sessions/current/echo", json={"text": "C1"}).raise_for_status()
    assert "was not echoed" not in resume(client, to="codex", budget="full").partition("## Now")[0]


def test_a_screen_is_not_expected_to_echo(client: TestClient) -> None:
    tell(client, "sessions", name="s")
    resume(client, to="terminal")
    assert "was not echoed" not in resume(client, to="terminal")


def test_a_later_echo_of_the_same_receiver_settles_it(client: TestClient) -> None:
    tell(client, "sessions", name="s")
    resume(client, to="agent")
    tell(client, "directives", text="x")
    make(client)
    resume(client, to="agent")
    client.post(f"{API}/sessions/current/echo", json={"text": "C2"}).raise_for_status()
    assert "was not echoed" not in resume(client, to="agent").partition("## Now")[0]


def test_names_of_checkpoints_in_a_text() -> None:
    assert named("C1, C12 (c3, XC4, C5x, C06) C1") == [1, 12]
