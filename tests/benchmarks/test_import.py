"""Result files through the API: stored once, tied to their launch, compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

DATA = Path(__file__).parents[1] / "data"
RESULTS = sorted(path for path in (DATA / "bench").iterdir() if path.suffix == ".jsonl")


@pytest.fixture
def session(client: TestClient) -> TestClient:
    client.post("/api/v1/sessions", json={"name": "s"}).raise_for_status()
    return client


def put(client: TestClient, body: bytes, **params: Any):
    return client.post("/api/v1/benchmarks/import", content=body, params={"name": "run.jsonl", **params})


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.name)
def test_a_recorded_file_is_stored_whole(session: TestClient, path: Path) -> None:
    answer = put(session, path.read_bytes())
    assert answer.status_code == 201, answer.text
    run = answer.json()["data"][0]
    line = json.loads(path.read_text().splitlines()[0])
    assert run["metrics"]["output_throughput"]["value"] == line["output_throughput"]
    assert run["metrics"]["output_throughput"]["unit"] == "tok/s"
    assert run["metrics"]["median_ttft_ms"] == {"value": line["median_ttft_ms"], "unit": "ms", "better": "lower"}
    assert (run["artifact"], run["provenance"]) == ("run.jsonl", "imported:run.jsonl")


def test_a_file_that_grows_stores_only_what_is_new(session: TestClient) -> None:
    first, second = (path.read_bytes().strip() for path in RESULTS[:2])
    assert put(session, first).json()["stored"] == 1
    again = put(session, first + b"\n" + second).json()
    assert (again["stored"], again["known"], len(again["data"])) == (1, 1, 2)
    assert session.get("/api/v1/benchmarks").json()["count"] == 2


def test_a_run_is_tied_to_the_launch_whose_seed_it_names(session: TestClient) -> None:
    line = json.loads(RESULTS[0].read_text().splitlines()[0])
    server = line["server_info"]
    assert server["random_seed"]
    for _ in range(2):
        session.post("/api/v1/launches", json={"start": False, "port": server["port"], "model": server["model_path"]})
    answer = put(session, json.dumps(line).encode()).json()
    assert "launch" not in answer["data"][0]
    assert answer["notes"] == ["B1: L1, L2 fit its server; say which with --launch."]
    line["duration"] += 1
    told = put(session, json.dumps(line).encode(), launch="L2").json()
    assert told["data"][0]["launch"] == "L2"


def test_the_only_launch_that_fits(session: TestClient) -> None:
    line = json.loads(RESULTS[0].read_text().splitlines()[0])
    server = line["server_info"]
    session.post("/api/v1/launches", json={"start": False, "port": server["port"], "model": server["model_path"]})
    session.post("/api/v1/launches", json={"start": False, "port": server["port"] + 1})
    assert put(session, RESULTS[0].read_bytes()).json()["data"][0]["launch"] == "L1"


def test_an_unknown_launch_stores_nothing(session: TestClient) -> None:
    assert put(session, RESULTS[0].read_bytes(), launch="L9").status_code == 422
    assert session.get("/api/v1/benchmarks").json()["count"] == 0


@pytest.mark.parametrize("keep", [0, 1, 40, 200, -30])
def test_a_file_that_was_cut_short_stores_nothing(session: TestClient, keep: int) -> None:
    body = RESULTS[0].read_bytes().strip()[:keep]
    answer = put(session, body)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"].startswith("run.jsonl")
    assert session.get("/api/v1/benchmarks").json()["count"] == 0


def test_no_key_of_the_server_is_stored(session: TestClient) -> None:
    line = json.loads(RESULTS[0].read_text().splitlines()[0])
    line["server_info"] |= {
        "api_key": "sk-verysecret123456",
        "launch_command": "python x --api-key sk-verysecret123456",
    }
    put(session, json.dumps(line).encode()).raise_for_status()
    assert "verysecret" not in session.get("/api/v1/sessions/S1/export").text
    assert "verysecret" not in session.get("/api/v1/benchmarks/B1").text


def test_the_comparison_of_the_reference_session(client: TestClient) -> None:
    body = (DATA / "reference-session.jsonl").read_bytes()
    client.post("/api/v1/import", content=body).raise_for_status()
    told = client.get("/api/v1/sessions/current/comparison").json()
    rows = {row["label"]: (row["text"], row.get("difference"), row["best"]) for row in told["rows"]}
    assert rows == {
        "baseline": ("88.8", None, False),
        "EAGLE-3, 1 step": ("85.1", "-4.2 %", False),
        "EAGLE-3, 2 steps": ("94.0", "+5.9 %", True),
        "EAGLE-3, 5 steps": ("86.7", "-2.4 %", False),
    }
    assert "one run" in next(row["words"] for row in told["rows"] if row["best"])


def test_a_metric_that_nobody_measured(client: TestClient) -> None:
    client.post("/api/v1/import", content=(DATA / "reference-session.jsonl").read_bytes()).raise_for_status()
    answer = client.get("/api/v1/sessions/current/comparison", params={"metric": "speed"})
    assert (answer.status_code, "there are output_throughput" in answer.json()["detail"]) == (422, True)
