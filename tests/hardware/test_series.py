from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient

from sitrepd.hardware import models, newest
from sitrepd.hardware.gpus import GpuSample
from sitrepd.hardware.quantities import KINDS

START = datetime.fromisoformat("2026-11-30T10:00:00+00:00")


def runtime_of(client: TestClient) -> Any:
    return client.app.state.runtime  # type: ignore[attr-defined]


def store(client: TestClient, gpu: int, samples: Sequence[tuple[datetime, float | None, str | None]]) -> None:
    runtime = runtime_of(client)
    rows = [
        {"host_id": runtime.host_id, "gpu": gpu, "at": at, "power_w": power, "clock_reasons": 4 if throttle else 0}
        for at, power, throttle in samples
    ]
    runtime.store.write(lambda db: newest.add(db, rows))


def test_rows_are_of_gpus_that_could_be_read():
    read = GpuSample(0, "GPU-0", utilization_percent=7, power_w=80.5, clock_reasons_mask=0x25)
    lost = GpuSample(1, "GPU-1", reason="the GPU is lost")
    [row] = newest.rows(3, START, [read, lost])
    told = {name: value for name, value in row.items() if value is not None}
    assert told == {"host_id": 3, "gpu": 0, "at": START, "utilization": 7, "power_w": 80.5, "clock_reasons": 0x25}
    assert set(row) == {"host_id", "gpu", "at", *KINDS}
    assert models.GpuSample(**row).throttle == "power cap, thermal (software)"


def test_buckets_with_a_gap(client: TestClient):
    seconds = [*range(60), *range(150, 160)]
    at = [START + timedelta(seconds=second) for second in seconds]
    store(client, 2, [(moment, 100.0 + n, "power cap" if n < 5 else None) for n, moment in enumerate(at)])
    store(client, 3, [(START, 1.0, None)])
    until = START + timedelta(seconds=200)
    query = {"since": START.isoformat(), "until": until.isoformat(), "points": 20}
    answer = client.get("/api/v1/gpus/2/samples", params=query)
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert told["bucket_s"] == 10
    assert told["samples"] == [10, 10, 10, 10, 10, 10, 0, 10]
    assert told["at"][5:] == ["2026-11-30T10:00:50Z", "2026-11-30T10:01:00Z", "2026-11-30T10:02:30Z"]
    power = told["metrics"]["power_w"]
    assert power["min"] == [100, 110, 120, 130, 140, 150, None, 160]
    assert power["mean"] == [104.5, 114.5, 124.5, 134.5, 144.5, 154.5, None, 164.5]
    assert power["max"] == [109, 119, 129, 139, 149, 159, None, 169]
    assert told["metrics"]["utilization"]["mean"] == [None] * 8
    assert told["throttled"] == [0.5, 0, 0, 0, 0, 0, None, 0]
    assert told["throttle"] == {"power cap": 5}


def test_samples_of_an_idle_machine_are_no_gaps(client: TestClient):
    store(client, 0, [(START + timedelta(seconds=10 * n), 50.0, None) for n in range(30)])
    query = {"since": START.isoformat(), "until": (START + timedelta(seconds=300)).isoformat(), "points": 300}
    told = client.get("/api/v1/gpus/0/samples", params=query).json()
    assert told["samples"] == [1] * 30


def test_one_metric_alone(client: TestClient):
    store(client, 0, [(START, 50.0, None)])
    query = {"since": START.isoformat(), "metric": ["power_w", "temperature_c", "power_w"]}
    told = client.get("/api/v1/gpus/0/samples", params=query).json()
    assert told["metrics"] == {
        "power_w": {"min": [50.0], "mean": [50.0], "max": [50.0]},
        "temperature_c": {"min": [None], "mean": [None], "max": [None]},
    }
    assert told["samples"] == [1]


@pytest.mark.parametrize(
    ("since", "until"),
    [
        ("2099-01-01T00:00:00Z", "2099-01-02T00:00:00Z"),
        ("1960-01-01T00:00:00Z", "1970-01-01T00:00:00Z"),
        ("2026-11-30T09:00:00Z", "2026-11-30T09:00:00.0001Z"),
        (None, "0001-01-01T00:30:00Z"),
    ],
)
def test_where_nothing_was_sampled_there_is_nothing(client: TestClient, since: str | None, until: str):
    """In the future, before everything, in a time shorter than a sample, at the end of the calendar."""
    store(client, 0, [(START, 1.0, None)])
    query = {"until": until} | ({"since": since} if since else {})
    answer = client.get("/api/v1/gpus/0/samples", params=query)
    assert answer.status_code == 200, answer.text
    assert (answer.json()["at"], answer.json()["throttle"]) == ([], {})
    assert client.get("/api/v1/gpus/summary", params=query).json()["gpus"] == []


def test_all_of_the_calendar_is_a_range_too(client: TestClient):
    store(client, 0, [(START + timedelta(seconds=n), 1.0, None) for n in range(5)])
    query = {"since": "0001-01-01T00:00:00Z", "until": "9999-12-31T23:59:59Z", "points": 3}
    assert client.get("/api/v1/gpus/0/samples", params=query).json()["samples"] == [5]


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("gpus/0/samples?metric=power_w&metric=watts", 422, "There is no metric 'watts'; there are utilization, "),
        ("gpus/0/samples?until=0001-01-01T00:00:00Z", 422, "is not before until="),
        ("gpus/0/samples?since=2026-11-30T10:00:00Z&until=2026-11-30T09:00:00Z", 422, "is not before until="),
        ("gpus/0/samples?since=yesterday", 422, "since"),
        ("gpus/0/samples?points=0", 422, "points"),
        ("gpus/9/samples", 404, "This host has no GPU 9: its GPUs are 0."),
    ],
)
def test_bad_questions_are_told_what_would_be_right(client: TestClient, path: str, status: int, said: str):
    store(client, 0, [(START, 1.0, None)])
    answer = client.get(f"/api/v1/{path}")
    assert answer.status_code == status
    assert said in answer.text
