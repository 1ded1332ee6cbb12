"""Points of a training run in batches: stored whole, in order, with their decimals, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.daemons import application


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder: Path = tmp_path_factory.mktemp("ingest")
    with application(folder / "store") as found:
        found.post("/api/v1/sessions", json={"name": "s"}).raise_for_status()
        yield found


@pytest.fixture
def training(client: TestClient) -> str:
    return str(client.post("/api/v1/trainings", json={"name": "drafter"}).json()["id"])


def add(client: TestClient, training: str, body: bytes) -> Any:
    return client.post(f"/api/v1/trainings/{training}/points", content=body)


def test_batches_follow_each_other(client: TestClient, training: str) -> None:
    first = add(client, training, b'{"step": [1, 2], "metrics": {"loss": [2.50, 2.10], "acc": [null, 0.41]}}')
    assert (first.status_code, first.json()) == (201, {"id": training, "stored": 3})
    assert add(client, training, b'{"epoch": [1.5], "metrics": {"loss": [1e-5]}}').json()["stored"] == 1
    answer = client.get(f"/api/v1/trainings/{training}")
    assert '"value":2.50' in answer.text
    points = answer.json()["points"]
    assert [point.get("step") for point in points] == [1, 2, None]
    assert [list(point["metrics"]) for point in points] == [["loss"], ["loss", "acc"], ["loss"]]
    assert points[0]["metrics"]["loss"] == {"value": 2.5, "better": "lower"}
    assert points[2]["epoch"] == 1.5


def test_one_event_tells_of_a_batch(client: TestClient, training: str) -> None:
    before = client.get("/api/v1/events", params={"limit": 1000}).json()[-1]["id"]
    add(client, training, b'{"step": [1, 2, 3], "metrics": {"loss": [1, 2, 3]}}')
    events = client.get("/api/v1/events", params={"limit": 1000, "after": before}).json()
    told = [(one["kind"], one["data"].get("added")) for one in events if one["subject"] == training]
    assert told == [("training.changed", 3)], events


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        (b"", "The body is no JSON"),
        (b"[]", "`metrics` is wanted"),
        (b'{"step": [1], "metrics": {}}', "`metrics` is wanted"),
        (b'{"metrics": {"loss": [1]}}', "`step` or `epoch` is wanted"),
        (b'{"step": [1, 2], "metrics": {"loss": [1]}}', "step: a list of 1 numbers"),
        (b'{"step": [1], "metrics": {"loss": [1], "acc": [1, 2]}}', "metrics.acc: a list of 1 numbers"),
        (b'{"step": [1], "metrics": {"loss": ["2.1 nats"]}}', "metrics.loss.0: a number is wanted"),
        (b'{"step": [1], "metrics": {"loss": [true]}}', "metrics.loss.0: a number is wanted"),
        (b'{"step": [1], "metrics": {"loss": [NaN]}}', "NaN is no number; send null"),
        (b'{"step": [1], "metrics": {"loss": [Infinity]}}', "Infinity is no number"),
        (b'{"step": [1], "metrics": {"loss": [1e999999]}}', "metrics.loss.0"),
        (b'{"step": [1.5], "metrics": {"loss": [1]}}', "step.0: a whole number"),
        (b'{"step": [-1], "metrics": {"loss": [1]}}', "step.0: a number from 0 on"),
        (b'{"step": [true], "metrics": {"loss": [1]}}', "step.0: a number from 0 on"),
        (b'{"step": [9223372036854775808], "metrics": {"loss": [1]}}', "step.0: a whole number"),
        (b'{"step": [1], "metrics": {"loss": [1' + b"0" * 400 + b"]}}", "metrics.loss.0"),
        (b'{"step": [1], "metrics": {"": [1]}}', "a name of 0 characters"),
        (b'{"step": [1], "at": 3, "metrics": {"loss": [1]}}', "at is not known here"),
        (b'{"step": [' + b"1," * 200_000 + b'1], "metrics": {"loss": [' + b"1," * 200_000 + b"1]}}", "at most 200000"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_and_nothing_is_stored(
    client: TestClient, training: str, body: bytes, wrong: str
) -> None:
    answer = add(client, training, body)
    assert answer.status_code == 422
    assert wrong in answer.json()["detail"]
    assert (
        "points" not in client.get(f"/api/v1/trainings/{training}").json()
        or not client.get(f"/api/v1/trainings/{training}").json()["points"]
    )


def test_an_unknown_training(client: TestClient) -> None:
    assert add(client, "T99", b'{"step": [1], "metrics": {"loss": [1]}}').status_code == 404
