"""Two checkpoints compared by facts, not by lines."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.checkpoints.telling import API, make, tell
from tests.history.conftest import ask, change


def compared(client: TestClient, a: str = "C1", b: str = "C2") -> dict[str, Any]:
    told: dict[str, Any] = ask(client, f"/checkpoints/{a}/diff/{b}")
    return told


def ids(found: list[dict[str, Any]]) -> list[str]:
    return [one["id"] for one in found]


def test_added_changed_and_gone(told: TestClient) -> None:
    make(told)
    tell(told, "findings", kind="rejected", title="FP8 KV cache", reason="accept rate halves", status="confirmed")
    tell(told, "messages", number=1, role="user", text="x")
    change(told, "/findings/F2", status="refuted")
    change(told, "/directives/D1", active=False)
    change(told, "/next-steps/N1", state="done")
    change(told, "/next-steps/N2", order=1)
    make(told)
    found = compared(told)
    assert (found["older"], found["newer"], found["basis"], found["messages"]) == ("C1", "C2", "events", 1)
    assert found["added"] == [{"id": "F3", "type": "finding", "text": "FP8 KV cache", "state": "rejected, confirmed"}]
    fields = {one["id"]: [(f["name"], f.get("old"), f.get("new")) for f in one["fields"]] for one in found["changed"]}
    assert fields == {
        "F2": [("status", "open", "refuted")], "D1": [("active", True, False)], "N1": [("state", "todo", "done")],
        "N2": [("order", 2, 1)],
    }  # fmt: skip
    assert {one["id"]: one["why"] for one in found["gone"]} == {"F2": "refuted", "D1": "taken back", "N1": "done"}


def test_it_goes_from_the_older_to_the_newer_whichever_is_named_first(told: TestClient) -> None:
    make(told)
    tell(told, "directives", text="x")
    make(told)
    assert compared(told, "C2", "C1") == compared(told, "C1", "C2")


def test_several_changes_become_one_and_a_change_back_none(told: TestClient) -> None:
    make(told)
    for state in ("doing", "done"):
        change(told, "/next-steps/N1", state=state)
    for status in ("confirmed", "open"):
        change(told, "/findings/F2", status=status)
    tell(told, "directives", text="x")
    make(told)
    found = compared(told)
    assert ids(found["changed"]) == ["N1"]
    assert [(one["old"], one["new"]) for one in found["changed"][0]["fields"]] == [("todo", "done")]


@pytest.mark.slow
def test_what_happened_later_is_not_told(told: TestClient) -> None:
    make(told)
    tell(told, "findings", kind="decision", title="Use two steps", status="confirmed")
    make(told)
    change(told, "/findings/F3", status="superseded")
    tell(told, "directives", text="later")
    make(told)
    found = compared(told)
    assert [(one["id"], one["state"]) for one in found["added"]] == [("F3", "decision, confirmed")]
    assert found["gone"] == []
    assert [one["why"] for one in compared(told, "C2", "C3")["gone"]] == ["superseded"]
    assert compared(told, "C1", "C3")["added"][0]["state"] == "decision, superseded"


def test_a_replaced_finding_is_gone(told: TestClient) -> None:
    make(told)
    tell(told, "findings", kind="observation", title="Better", supersedes="F2")
    make(told)
    found = compared(told)
    assert (ids(found["added"]), ids(found["changed"]), ids(found["gone"])) == (["F3"], ["F2"], ["F2"])


def test_measures_that_changed_keep_their_decimals(told: TestClient) -> None:
    make(told)
    body = '{"metrics": {"output_throughput": {"value": 85.10, "unit": "tok/s"}}}'
    told.patch(f"{API}/benchmarks/B2", content=body, headers={"Content-Type": "application/json"}).raise_for_status()
    tell(told, "directives", text="x")
    make(told)
    (change_,) = compared(told)["changed"][0]["fields"]
    assert change_["old"]["output_throughput"]["value"] == "85.1"
    assert change_["new"]["output_throughput"]["value"] == "85.10"


def test_nothing_differs(told: TestClient) -> None:
    make(told)
    found = compared(told, "C1", "C1")
    assert (found["added"], found["changed"], found["gone"]) == ([], [], [])


def test_of_different_sessions_the_texts_are_compared(told: TestClient) -> None:
    make(told)
    tell(told, "sessions", name="another")
    told.post(f"{API}/sessions/S2/directives", json={"text": "only here"}).raise_for_status()
    told.post(f"{API}/sessions/S2/checkpoints").raise_for_status()
    found = compared(told)
    assert found["basis"] == "sections"
    assert "D4" in ids(found["added"])
    assert {"D1", "F1", "B3"} <= set(ids(found["gone"]))


def test_what_is_no_checkpoint(told: TestClient) -> None:
    make(told)
    for other in ("C9", "L1", "nothing of the kind"):
        answer = told.get(f"{API}/checkpoints/C1/diff/{other}")
        assert answer.status_code == 404
        assert other in answer.json()["detail"]


def test_names_and_pins(told: TestClient) -> None:
    make(told)
    change(told, "/checkpoints/C1", name="before FP8", pinned=True)
    assert ask(told, "/checkpoints/before FP8")["id"] == "C1"
    (listed,) = ask(told, "/checkpoints")["data"]
    assert (listed["name"], listed["pinned"]) == ("before FP8", True)
    assert compared(told, "before FP8", "C1")["older"] == "C1"
    text = told.get(f"{API}/checkpoints/before FP8", params={"format": "md"})
    assert text.headers["etag"] == told.get(f"{API}/checkpoints/C1", params={"format": "md"}).headers["etag"]
    change(told, "/checkpoints/C1", name=None, pinned=False)
    assert told.get(f"{API}/checkpoints/before FP8").status_code == 404


def test_a_name_belongs_to_one_checkpoint_and_is_no_id(told: TestClient) -> None:
    make(told)
    tell(told, "directives", text="x")
    make(told)
    change(told, "/checkpoints/C1", name="start")
    taken = told.patch(f"{API}/checkpoints/C2", json={"name": "start"})
    assert (taken.status_code, "C1" in taken.json()["detail"]) == (409, True)
    assert told.patch(f"{API}/checkpoints/C2", json={"name": "c7"}).status_code == 422
    assert told.patch(f"{API}/checkpoints/C2", json={"rendered": {}}).status_code == 422
    assert told.patch(f"{API}/checkpoints/C2", json={}).status_code == 422


def test_name_and_pin_make_no_new_checkpoint(told: TestClient) -> None:
    make(told)
    change(told, "/checkpoints/C1", name="start", pinned=True)
    assert make(told)["id"] == "C1"
