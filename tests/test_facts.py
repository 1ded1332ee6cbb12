"""What every noun has: create, read, list, change, by REST."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from sitrepd.slices import load_registry

REGISTRY = load_registry()
TOLD = [noun for noun in REGISTRY.nouns if noun.writable and noun.word not in ("session", "launch")]


@pytest.fixture
def told(client: TestClient) -> TestClient:
    """A session with one fact of the kinds that others refer to."""
    for plural, body in {
        "sessions": {"name": "s"}, "launches": {"start": False, "command": "x"}, "sweeps": {"name": "w"},
        "benchmarks": {"name": "b"}, "hosts": {"name": "h"}, "models": {"path": "/m"},
    }.items():  # fmt: skip
        client.post(f"/api/v1/{plural}", json=body).raise_for_status()
    client.post(
        "/api/v1/import", content=b'{"type":"checkpoint","number":1,"trigger":"idle","rendered":{}}'
    ).raise_for_status()
    return client


def example(noun: Any) -> dict[str, Any]:
    body = dict(noun.create.model_config["json_schema_extra"]["examples"][0])
    return body | {name: "L1" for name in ("launch",) if name in body} | ({"benchmarks": ["B1"]} if "benchmarks" in body else {}) | (
        {"checkpoint": "C1"} if "checkpoint" in body else {}
    )  # fmt: skip


@pytest.mark.parametrize("noun", TOLD, ids=lambda noun: noun.word)
def test_the_documented_example_is_stored_and_read_back(told: TestClient, noun: Any) -> None:
    body = example(noun)
    answer = told.post(f"/api/v1/{noun.plural}", json=body, headers={"X-Sitrep-Client": "tester"})
    assert answer.status_code == 201, answer.text
    fact = answer.json()
    assert fact["provenance"] == "told:tester"
    assert fact["observed_at"] == fact["at"]
    assert fact["id"].startswith(noun.prefix)
    assert answer.headers["location"] == f"/api/v1/{noun.plural}/{fact['id']}"
    assert told.get(answer.headers["location"]).json() == fact
    assert told.get(f"/api/v1/{noun.plural}", params={"limit": 1}).json()["data"] == [fact]
    if noun.prefix:
        assert told.get(f"/api/v1/facts/{fact['id']}").json() == {"type": noun.word, **fact}


@pytest.mark.parametrize("noun", TOLD, ids=lambda noun: noun.word)
def test_an_unknown_field_is_named(told: TestClient, noun: Any) -> None:
    answer = told.post(f"/api/v1/{noun.plural}", json=example(noun) | {"colour": "red"})
    assert answer.status_code == 422
    assert {"field": "colour", "message": "unknown field"} in answer.json()["errors"]


@pytest.mark.parametrize("noun", TOLD, ids=lambda noun: noun.word)
def test_an_unknown_id_says_what_ids_look_like(told: TestClient, noun: Any) -> None:
    answer = told.get(f"/api/v1/{noun.plural}/{noun.public_id(999)}")
    assert answer.status_code == 404
    assert f"There is no {noun.word}" in answer.json()["detail"]
    assert told.patch(f"/api/v1/{noun.plural}/{noun.public_id(999)}", json={}).status_code in (404, 422)


def test_a_list_is_read_page_by_page(told: TestClient) -> None:
    for number in range(5):
        told.post("/api/v1/directives", json={"text": f"wish {number}"})
    seen, cursor = [], None
    while True:
        page = told.get("/api/v1/directives", params={"limit": 2, **({"cursor": cursor} if cursor else {})}).json()
        assert page["count"] == 5
        seen += [fact["text"] for fact in page["data"]]
        cursor = page.get("next_cursor")
        if cursor is None:
            break
    assert seen == [f"wish {number}" for number in (4, 3, 2, 1, 0)]
    assert told.get("/api/v1/directives", params={"cursor": "x"}).status_code == 422
    assert told.get("/api/v1/directives", params={"limit": 0}).status_code == 422


def test_a_change_names_its_fields_and_values_in_an_event(told: TestClient) -> None:
    told.post("/api/v1/next-steps", json={"text": "do it"})
    changed = told.patch("/api/v1/next-steps/N1", json={"state": "done"})
    assert (changed.status_code, changed.json()["state"], changed.json()["text"]) == (200, "done", "do it")
    event = told.get("/api/v1/events").json()[-1]
    assert (event["kind"], event["subject"]) == ("next_step.changed", "N1")
    assert event["data"] == {"fields": ["state"], "changes": {"state": {"old": "todo", "new": "done"}}}


def test_a_changed_measure_keeps_its_decimals_in_the_event(told: TestClient) -> None:
    body = '{"metrics": {"output_throughput": {"value": 88.80, "unit": "tok/s"}}}'
    told.patch("/api/v1/benchmarks/B1", content=body, headers={"Content-Type": "application/json"}).raise_for_status()
    change = told.get("/api/v1/events").json()[-1]["data"]["changes"]["metrics"]
    assert change == {"old": None, "new": {"output_throughput": {"value": "88.80", "unit": "tok/s"}}}


def test_a_change_of_nothing_and_of_too_much(told: TestClient) -> None:
    told.post("/api/v1/next-steps", json={"text": "do it"})
    assert "Nothing to change" in told.patch("/api/v1/next-steps/N1", json={}).json()["detail"]
    assert "text cannot be emptied" in told.patch("/api/v1/next-steps/N1", json={"text": None}).json()["detail"]
    assert told.patch("/api/v1/next-steps/N1", json={"state": "never"}).status_code == 422
    assert told.patch("/api/v1/next-steps/N1", json={"order": 3}).json()["order"] == 3
    assert "order" not in told.patch("/api/v1/next-steps/N1", json={"order": None}).json()


def test_children_are_replaced_by_a_change(told: TestClient) -> None:
    told.post("/api/v1/benchmarks", json={"metrics": {"a": 1.50, "b": 2}})
    changed = told.patch("/api/v1/benchmarks/B2", json={"metrics": {"a": {"value": 3.25, "unit": "s"}}})
    assert changed.json()["metrics"] == {"a": {"value": 3.25, "unit": "s"}}


def test_a_finding_that_is_replaced_is_superseded(told: TestClient) -> None:
    told.post("/api/v1/findings", json={"kind": "hypothesis", "title": "old", "status": "confirmed"})
    told.post("/api/v1/findings", json={"kind": "root_cause", "title": "new", "supersedes": "F1"})
    assert told.get("/api/v1/findings/F1").json()["status"] == "superseded"


BAD = [
    ("findings", {"kind": "rejected", "title": ""}, "title"),
    ("findings", {"kind": "rejected", "title": 5}, "title"),
    ("findings", {"kind": "rejected", "title": "x", "supersedes": "F9"}, "F9"),
    ("findings", {"kind": "rejected", "title": "x", "supersedes": "L1"}, "supersedes"),
    ("benchmarks", {"metrics": {"x": "94.0"}}, "metrics.x"),
    ("benchmarks", {"metrics": {"x": True}}, "metrics.x"),
    ("benchmarks", {"baseline": "yes"}, "baseline"),
    ("benchmarks", {"launch": "B1"}, "launch"),
    ("hosts", {"name": "h", "memory_bytes": -1}, "memory_bytes"),
    ("hosts", {"name": "h", "cpu_count": 1.5}, "cpu_count"),
    ("next-steps", {"text": "x", "after": ["X7"]}, "X7"),
    ("trainings", {"points": [{"metrics": {}}]}, "epoch or a step"),
    ("messages", {"number": 1, "role": "robot", "text": ""}, "role"),
    ("trials", {"sweep": "W9"}, "W9"),
]


@pytest.mark.parametrize(("plural", "body", "why"), BAD)
def test_bad_input_names_the_place_and_stores_nothing(
    told: TestClient, plural: str, body: dict[str, Any], why: str
) -> None:
    before = told.get(f"/api/v1/{plural}").json()["count"]
    answer = told.post(f"/api/v1/{plural}", json=body)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert why in answer.json()["detail"]
    assert told.get(f"/api/v1/{plural}").json()["count"] == before


@pytest.mark.parametrize("body", [b"{", b'{"text": NaN}', b"[]", b"", b"\xff"])
def test_a_body_that_is_no_json(told: TestClient, body: bytes) -> None:
    answer = told.post("/api/v1/directives", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.headers["content-type"] == "application/problem+json"


def test_secrets_are_not_stored(told: TestClient) -> None:
    secret = "hf_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3x"
    told.post("/api/v1/messages", json={"number": 1, "role": "user", "text": f"use HF_TOKEN={secret} please"})
    told.post(
        "/api/v1/launches",
        json={"start": False, "command": f"HF_TOKEN={secret} python -m sglang.launch_server --api-key {secret}"},
    )
    told.post("/api/v1/findings", json={"kind": "observation", "title": "t", "evidence": [f"token {secret}"]})
    dump = told.get("/api/v1/sessions/S1/export").text
    assert secret not in dump
    assert "HF_TOKEN=${HF_TOKEN} python -m sglang.launch_server" in dump


@pytest.mark.slow
def test_openapi_is_clean(client: TestClient) -> None:
    spec = client.get("/api/v1/openapi.json").json()
    operations = [one for path in spec["paths"].values() for one in path.values()]
    ids = [operation["operationId"] for operation in operations]
    assert len(ids) == len(set(ids))
    assert all(one.replace("_", "").isalnum() and one == one.lower() for one in ids)
    assert all(operation.get("summary") for operation in operations)
    assert spec["components"]["schemas"]["BenchmarkCreate"]["examples"]


def test_every_noun_of_the_design_has_its_letter() -> None:
    letters = {noun.word: noun.prefix for noun in REGISTRY.nouns}
    assert letters == {
        "host": "H", "session": "S", "message": "", "directive": "D", "launch": "L", "stack": "K", "benchmark": "B",
        "sweep": "W", "trial": "", "profile": "P", "training": "T", "reference": "R", "model": "M", "finding": "F",
        "next_step": "N", "artifact": "A", "checkpoint": "C", "delivery": "", "claim": "Q",
        "command": "X", "compaction": "",
    }  # fmt: skip
