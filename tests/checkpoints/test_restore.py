"""A checkpoint's JSON read back: the facts that it tells, under the ids that it tells them by, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.checkpoints.telling import API, latest, make, tell, tell_reference
from tests.daemons import application
from tests.test_portable import EVERY_TYPE

# What a checkpoint does not say of a fact.
UNTOLD = {"host": {"topology", "numa", "disks"}, "model": {"config"}, "benchmark": {"samples"}, "launch": {"phases"}}
SESSION = {"type": "session", "key": "s", "name": "work"}
# What those lines leave out.
MORE: list[dict[str, Any]] = [
    {"type": "directive", "text": "Perhaps.", "proposed": True},
    {"type": "next_step", "text": "read", "needs": "nothing"},
    {"type": "launch", "engine": "sglang", "command": "serve", "state": "lost", "from_launch": "#l"},
    {"type": "profile", "launch": "#l2", "phases": [{"name": "draft", "total_ms": 1.50}]},
]


def put(client: TestClient, body: str, name: str = "cp.json", **params: Any) -> Any:
    return client.post(f"{API}/import", content=body.encode(), params={"name": name, **params})


def taken(client: TestClient, body: str, name: str = "cp.json") -> dict[str, Any]:
    answer = put(client, body, name)
    assert answer.status_code == 201, answer.text
    told: dict[str, Any] = answer.json()
    return told


def session_file(*lines: dict[str, Any]) -> str:
    return "\n".join(json.dumps(line) for line in lines)


def facts(client: TestClient, session: str) -> list[dict[str, Any]]:
    """The exported lines without times, provenance and history, and without what no checkpoint tells."""
    lines = [json.loads(line) for line in client.get(f"{API}/sessions/{session}/export").text.splitlines()]
    told = []
    for line in lines:
        gone = {"at", "observed_at", "provenance"} | UNTOLD.get(line["type"], set())
        if line["type"] not in ("message", "checkpoint", "delivery"):
            told.append({name: value for name, value in line.items() if name not in gone})
    return sorted(told, key=str)


def document(data_dir: Path, *lines: dict[str, Any], **params: Any) -> tuple[str, list[dict[str, Any]]]:
    """The JSON of a checkpoint of these lines, and their facts."""
    with application(data_dir) as client:
        session = taken(client, session_file(*lines), "s.jsonl")["session"]
        made = client.post(f"{API}/sessions/{session}/checkpoints").json()
        text = client.get(f"{API}/checkpoints/{made['id']}", params={"format": "json"} | params).text
        return text, facts(client, session)


def test_every_type_comes_back_with_its_ids(tmp_path: Path) -> None:
    """An argv comes back as the command that it makes; all else as it was, and the second time the same."""
    text, before = document(tmp_path / "a", *EVERY_TYPE, *MORE)
    with application(tmp_path / "b") as client:
        told = taken(client, text)
        assert told["missing"] == []
        assert {key for key, value in told["keys"].items() if key != value} == set()
        after = facts(client, told["session"])
    argv = next(line for line in before if "argv" in line)
    argv["command"] = "A=b vllm serve /m"
    del argv["argv"], argv["env"]
    assert sorted(after, key=str) == sorted(before, key=str)


@pytest.mark.slow
def test_it_is_said_where_facts_come_from(client: TestClient, tmp_path: Path) -> None:
    text, _ = document(tmp_path / "a", *EVERY_TYPE)
    number = json.loads(text)["id"]
    session = taken(client, text)["session"]
    launch = client.get(f"{API}/sessions/{session}/launches").json()["data"][0]
    assert launch["provenance"] == f"imported:{number} in cp.json"
    assert launch["imported_from"] == f"{number} in cp.json"
    assert launch["watched"] is False
    (kept,) = client.get(f"{API}/sessions/{session}/checkpoints").json()["data"]
    assert kept["id"] == number
    assert (
        client.get(f"{API}/checkpoints/{number}", params={"format": "json"}).json()["sections"]
        == json.loads(text)["sections"]
    )


def test_the_checkpoint_as_a_fact_can_be_read_too_and_set_out_over_lines(client: TestClient, tmp_path: Path) -> None:
    with application(tmp_path / "a") as other:
        tell_reference(other)
        number = make(other)["id"]
        whole = other.get(f"{API}/checkpoints/{number}").json()
    told = taken(client, json.dumps(whole, indent=2))
    assert told["counts"]["benchmark"] == 4
    assert told["counts"]["checkpoint"] == 1


def test_new_ids_where_the_store_has_used_them(client: TestClient, tmp_path: Path) -> None:
    """References follow; ids of the new store are not overwritten."""
    text, before = document(tmp_path / "a", *EVERY_TYPE)
    taken(client, session_file(*EVERY_TYPE), "s.jsonl")
    told = taken(client, text)
    assert told["session"] == "S2"
    assert told["keys"]["L1"] == "L3"
    stack = next(line for line in facts(client, "S2") if line["type"] == "stack")
    assert stack["launch"] == "L3"
    assert len(facts(client, "S2")) == len(before)


def test_twice_is_refused(client: TestClient, tmp_path: Path) -> None:
    text, _ = document(tmp_path / "a", SESSION)
    taken(client, text)
    assert put(client, text).status_code == 409
    assert put(client, text, again=True).status_code == 201


def test_what_the_budget_left_out_is_not_made_up(client: TestClient, tmp_path: Path) -> None:
    """A run whose launch is not told names none; a cited fact that is not told is cited as that checkpoint's."""
    launches = [
        {"type": "launch", "key": f"l{n}", "name": f"launch {n}", "state": "exited", "command": "x" * 400}
        for n in range(9)
    ]
    runs = [
        {
            "type": "benchmark",
            "key": f"b{n}",
            "name": f"run {n}",
            "launch": f"l{n}",
            "metrics": {"output_throughput": 10 + n},
        }
        for n in range(9)
    ]
    cause = {
        "type": "finding",
        "kind": "root_cause",
        "title": "cause",
        "status": "confirmed",
        "evidence": ["l3", "H200", "seen"],
    }
    step = {"type": "next_step", "text": "next", "after": ["l2", "b8"]}
    text, _ = document(tmp_path / "a", SESSION, cause, step, *launches, *runs, budget=3000)
    told = taken(client, text)
    by_type = {line["type"]: line for line in facts(client, told["session"])}
    assert by_type["finding"]["evidence"] == ["L4 of C1", "H200", "seen"]
    assert by_type["next_step"]["after"] == [told["keys"]["B9"]]
    assert "N1: after L3 is not told there" in told["missing"]
    assert json.loads(text)["left_out"][-1].removeprefix("- ") in told["missing"]


def test_a_passing_reading_and_launches_of_others_are_no_facts_of_the_session(client: TestClient) -> None:
    text = json.dumps({
        "version": 1, "id": "C4", "session": {"id": "S7", "name": "work"}, "at": "2026-12-01T03:20:47Z", "trigger": "idle",
        "sections": [{"name": "now", "title": "Now", "order": 10, "priority": 1, "items": [
            {"kind": "elsewhere", "id": "L9", "ids": ["L9"], "state": "ready", "volatile": True},
            {"kind": "reading", "ids": ["H1"], "host": "H1", "gpu": 0, "volatile": True, "live": {"power_w": 300.0}},
        ]}],
    })  # fmt: skip
    told = taken(client, text)
    assert told["counts"] == {"session": 1, "checkpoint": 1}
    assert told["session"] == "S7"


def test_metrics_of_which_only_the_teller_knew_which_way_is_better(client: TestClient, tmp_path: Path) -> None:
    score = [{"type": "benchmark", "key": f"b{n}", "name": f"r{n}", "baseline": not n, "metrics": {"quality": {"value": n, "better": "lower"}}}
             for n in range(3)]  # fmt: skip
    text, _ = document(tmp_path / "a", SESSION | {"best_metric": "quality"}, *score)
    session = taken(client, text)["session"]
    best = client.get(f"{API}/sessions/{session}/checkpoints/latest", params={"format": "json"}).json()
    (section,) = (one for one in best["sections"] if one["name"] == "best")
    assert section["items"][0]["ids"] == ["B1"]


def test_repeats_keep_the_launches_that_they_ran_on(client: TestClient, tmp_path: Path) -> None:
    launches = [{"type": "launch", "key": f"l{n}", "state": "exited", "command": f"serve {n}"} for n in range(2)]
    runs = [
        {"type": "benchmark", "key": f"b{n}", "name": f"same #{n}", "metrics": {"output_throughput": 10 + n}} | of
        for n, of in enumerate(({"launch": "l1"}, {"launch": "l0"}, {"launch": "l1"}, {}))
    ]
    text, before = document(tmp_path / "a", SESSION, *launches, *runs)
    after = facts(client, taken(client, text)["session"])
    ran = [[line.get("launch") for line in told if line["type"] == "benchmark"] for told in (before, after)]
    assert ran[0] == ran[1]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"version": 2}, "version 2"),
        ({"id": "L4"}, "no id of a checkpoint"),
        ({"session": None}, "see session"),
        ({"sections": [{"name": "best"}]}, "see sections.0"),
        ({"sections": [{"name": "goal", "title": "G", "order": 1, "priority": 1, "items": [{"id": "D1"}]}]}, "D1: directive"),
        ({"sections": [{"name": "best", "title": "B", "order": 1, "priority": 1, "items": [{"kind": "best"}]}]}, "section best"),
        (
            {"sections": [{"name": "benchmarks", "title": "B", "order": 1, "priority": 1, "data": {"metric": "m"},
             "items": [{"kind": "row", "ids": ["B1"], "value": "many"}]}]},
            "B1: benchmark",
        ),
    ],
)  # fmt: skip
def test_what_is_no_checkpoint_of_ours_is_refused_whole(client: TestClient, change: dict[str, Any], says: str) -> None:
    told: dict[str, Any] = {
        "version": 1, "id": "C4", "session": {"id": "S7", "name": "work"}, "at": "2026-12-01T03:20:47Z", "trigger": "idle",
        "sections": [],
    }  # fmt: skip
    answer = put(client, json.dumps(told | change))
    assert answer.status_code == 422, answer.text
    assert says in answer.json()["detail"]
    assert client.get(f"{API}/sessions").json()["count"] == 0


def test_the_next_fact_gets_the_number_after_the_last(client: TestClient, tmp_path: Path) -> None:
    text, _ = document(tmp_path / "a", SESSION, *({"type": "directive", "text": f"wish {n}"} for n in range(5)))
    taken(client, text)
    assert tell(client, "directives", text="another")["id"] == "D6"
    assert "C2" in latest(client).split("\n")[0]
