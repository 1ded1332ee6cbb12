"""What the GPUs did while a launch or a benchmark ran."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlmodel import Session
from tests.daemons import application

from sitrepd.benchmarks.models import Benchmark
from sitrepd.clock import utc_now
from sitrepd.hardware import newest, past, sealing, series
from sitrepd.hardware.meaning import gpus_of, summarised, throttled
from sitrepd.hardware.models import Host
from sitrepd.hardware.spans import mark
from sitrepd.launches.models import Launch

START = datetime.fromisoformat("2026-11-30T10:00:00+00:00")
CAP, HEAT, HOT = 0x4, 0x20, 0x40


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """Host 77 has four GPUs with two minutes of samples: GPU 1 is hot for 12 s, all are capped for 70 s."""
    with application(tmp_path_factory.mktemp("meaning") / "store") as found:
        runtime = runtime_of(found)
        runtime.store.write(_tell)
        assert found.post("/api/v1/sessions", json={"name": "s"}).status_code == 201
        yield found


def runtime_of(client: TestClient) -> Any:
    return client.app.state.runtime  # type: ignore[attr-defined]


def _tell(db: Session) -> None:
    db.add(Host(id=77, name="box", provenance="observed"))
    db.flush()
    for gpu in range(4):
        newest.add(db, [_row(gpu, second) for second in range(120)])


def _row(gpu: int, second: int) -> dict[str, Any]:
    reasons = (CAP if second < 70 else 0) | (HEAT if gpu == 1 and 30 <= second < 42 else 0)
    return {
        "host_id": 77, "gpu": gpu, "at": START + timedelta(seconds=second), "utilization": 100 if second < 60 else 50,
        "power_w": 600.0 + gpu, "sm_clock_mhz": 1900 + second, "clock_reasons": reasons,
    }  # fmt: skip


def read(client: TestClient, look: Callable[[Session], Any]) -> Any:
    with runtime_of(client).store.read() as db:
        return look(db)


UNTIL = START + timedelta(seconds=120)


def test_figures_energy_and_seconds_by_reason(client: TestClient) -> None:
    found = read(client, lambda db: summarised(db, 77, [0, 1], START, UNTIL, tokens=7212))
    assert [gpu.index for gpu in found.gpus] == [0, 1]
    first = found.gpus[0]
    assert first.samples == 120
    assert first.metrics["utilization"].mean == 75
    assert first.metrics["utilization"].p50 == 75
    clock = first.metrics["sm_clock_mhz"]
    assert (clock.min, clock.max, clock.mean) == (1900, 2019, 1959.5)
    assert clock.p95 == pytest.approx(1900 + 0.95 * 119, abs=0.01)
    assert "memory_temperature_c" not in first.metrics
    assert first.energy_j == 72_000
    assert first.throttled_s == {"power cap": 70}
    assert found.gpus[1].throttled_s == {"power cap": 70, "thermal (software)": 12}
    assert found.energy_j == 144_120
    assert found.joules_per_output_token == pytest.approx(144_120 / 7212)


def test_what_was_not_sampled_costs_no_energy(client: TestClient) -> None:
    """A time that began long before the daemon did, one it did not see the middle of, and one of minutes."""
    since, until = START - timedelta(days=400), UNTIL + timedelta(days=10)
    [gpu] = read(client, lambda db: summarised(db, 77, [2], since, until)).gpus
    # A sample stands for half a minute at the most, as the first and the last do here.
    assert gpu.energy_j == pytest.approx(602 * (30 + 119 + 30))
    assert gpu.throttled_s == {"power cap": pytest.approx(70 / 120 * 179, abs=0.1)}
    assert read(client, lambda db: summarised(db, 77, [2], since, START)).gpus == []

    runtime_of(client).store.write(_holed)
    holed = read(client, lambda db: series.sampled_s(db, 81, 0, START, START + timedelta(seconds=1000)))
    assert holed == pytest.approx(90 + 30 + 90 + 10)

    def seal(db: Session) -> None:
        while (sealed := sealing.seal(db, 81, 0, 50)) is not None:
            sealing.write(db, sealed)

    runtime_of(client).store.write(seal)
    day = read(client, lambda db: series.sampled_s(db, 81, 0, START - timedelta(hours=6), START + timedelta(hours=6)))
    assert day == pytest.approx(2 * 120)


def _holed(db: Session) -> None:
    """Every ten seconds for a minute and a half, twice, with a quarter of an hour between."""
    db.add(Host(id=81, name="other", provenance="observed"))
    db.flush()
    seconds = (*range(0, 100, 10), *range(900, 1000, 10))
    newest.add(db, [_row(0, second) | {"host_id": 81} for second in seconds])


def test_what_is_worth_a_mark(client: TestClient) -> None:
    def told(since: int, until: int, *gpus: int) -> list[str]:
        start, end = START + timedelta(seconds=since), START + timedelta(seconds=until)
        return read(client, lambda db: throttled(db, 77, gpus, start, end))

    assert told(0, 120, 0, 1, 2) == [
        "GPU 0-2 throttled for 70 s of 120 s: power cap",
        "GPU 1 throttled for 12 s of 120 s: thermal (software)",
    ]
    # Less than half of the time under a power cap is how GPUs run under load; heat always is news, once it lasts.
    assert told(40, 120, 0, 1) == ["GPU 1 throttled for 2 s of 80 s: thermal (software)"]
    assert told(70, 120, 0, 1) == []
    assert told(41, 120, 1) == []
    assert told(0, 120, 3) == ["GPU 3 throttled for 70 s of 120 s: power cap"]
    assert read(client, lambda db: throttled(db, 77, [0], START - timedelta(days=2), START - timedelta(days=1))) == []


def launch(client: TestClient, **more: Any) -> int:
    told = client.post("/api/v1/launches", json={"start": False, "command": "sglang --tp 2", "name": "two"}).json()
    number = int(told["id"][1:])

    def follow(db: Session) -> None:
        row = db.get(Launch, number)
        assert row is not None
        row.watched, row.host_id, row.started_at, row.ended_at, row.state = True, 77, START, UNTIL, "exited"
        for name, value in more.items():
            setattr(row, name, value)
        db.add(row)

    runtime_of(client).store.write(follow)
    return number


def claim(client: TestClient, number: int, gpus: list[int]) -> None:
    body = {"resource": "gpu", "numbers": gpus, "launch": f"L{number}", "host": "H77", "owner": "anna"}
    answer = client.post("/api/v1/claims", json=body)
    assert answer.status_code == 201, answer.text


def test_a_launch_is_asked_for_on_its_own_gpus(client: TestClient) -> None:
    number = launch(client)
    assert read(client, lambda db: gpus_of(db, 77, number)) == [0, 1, 2, 3]
    claim(client, number, [2, 3])
    told = client.get("/api/v1/gpus/summary", params={"launch": f"L{number}"}).json()
    assert [gpu["index"] for gpu in told["gpus"]] == [2, 3]
    assert told["gpus"][0]["metrics"]["power_w"]["mean"] == 602
    assert told["throttled"] == ["GPU 2-3 throttled for 70 s of 120 s: power cap"]


def test_a_benchmark_is_asked_for_over_its_duration(client: TestClient) -> None:
    number = launch(client)
    claim(client, number, [0])
    body = {"launch": f"L{number}", "metrics": {"duration": {"value": 60.0, "unit": "s"}, "total_output_tokens": 1000}}
    found = client.post("/api/v1/benchmarks", json=body | {"at": UNTIL.isoformat()}).json()
    refused = client.get("/api/v1/gpus/summary", params={"benchmark": found["id"]})
    assert refused.status_code == 404
    assert "When" in refused.json()["detail"]

    def seen(db: Session) -> None:
        row = db.get(Benchmark, int(found["id"][1:]))
        assert row is not None
        row.provenance = "observed:file"
        db.add(row)

    runtime_of(client).store.write(seen)
    told = client.get("/api/v1/gpus/summary", params={"benchmark": found["id"]}).json()
    assert [gpu["index"] for gpu in told["gpus"]] == [0]
    assert told["gpus"][0]["samples"] == 60
    assert told["output_tokens"] == 1000
    assert told["joules_per_output_token"] == pytest.approx(36.0, rel=1e-3)
    assert told["throttled"] == []


@pytest.mark.parametrize("seconds", [1e12, 1e30, 0.0])
def test_a_benchmark_that_says_it_took_for_ever_is_not_asked_for(client: TestClient, seconds: float) -> None:
    number = launch(client, host_id=runtime_of(client).host_id)
    body = {
        "launch": f"L{number}",
        "metrics": {"duration": {"value": seconds, "unit": "s"}},
        "provenance": "observed:x",
    }
    found = client.post("/api/v1/benchmarks", json=body).json()["id"]
    assert client.get("/api/v1/gpus/summary", params={"benchmark": found}).status_code == 404
    bands = client.get("/api/v1/gpus/past", params={"length_s": 900, "points": 300}).json()["bands"]
    assert found not in {band.get("id") for band in bands}
    runtime_of(client).store.write(lambda db: mark(db, db.get(Benchmark, int(found[1:]))))


def test_what_was_told_only_has_no_figures(client: TestClient) -> None:
    told = client.post("/api/v1/launches", json={"start": False, "command": "sglang"}).json()
    refused = client.get("/api/v1/gpus/summary", params={"launch": told["id"]})
    assert refused.status_code == 404
    assert "not followed" in refused.json()["detail"]
    answer = client.get("/api/v1/gpus/summary", params={"since": UNTIL.isoformat(), "until": START.isoformat()})
    assert answer.status_code == 422


# --- the past, in buckets ----------------------------------------------------------------------------------------


def test_buckets_stay_where_they_are_while_time_goes_on() -> None:
    assert past.step_s(900, 600) == 2
    assert past.step_s(30 * 86400, 600) == 7200
    for seconds in range(7):
        since, until = past.window(START + timedelta(seconds=seconds), 900, 5, None)
        assert since.timestamp() % 5 == 0
        assert (until - since) == timedelta(seconds=900)
        assert until > START + timedelta(seconds=seconds)
    now = START + timedelta(seconds=7)
    since, until = past.window(now, 900, 5, int(START.timestamp()))
    assert (since, until) == (START, START + timedelta(seconds=10))
    # What is older than the window is not asked for again, and the present bucket always is.
    assert past.window(now, 900, 5, 0)[0] == until - timedelta(seconds=900)
    assert past.window(now, 900, 5, 2**33)[0] == START + timedelta(seconds=5)


def test_gpus_share_one_line_of_times_and_gaps_are_gaps(client: TestClient) -> None:
    def tell(db: Session) -> None:
        db.add(Host(id=78, name="other", provenance="observed"))
        db.flush()
        for gpu, seconds in ((0, [*range(20), *range(200, 210)]), (1, range(10))):
            rows = [
                {"host_id": 78, "gpu": gpu, "at": START + timedelta(seconds=s), "power_w": 100.0 + s} for s in seconds
            ]
            newest.add(db, rows)

    runtime_of(client).store.write(tell)
    until = START + timedelta(seconds=300)
    at, gpus = read(client, lambda db: past.read(db, 78, {0: "A", 1: "B"}, START, until, 5, 25.0))
    assert [moment - int(START.timestamp()) for moment in at] == [0, 5, 10, 15, 20, 200, 205]
    assert gpus[0].metrics["power_w"] == [102, 107, 112, 117, None, 302, 307]
    assert gpus[1].metrics["power_w"] == [102, 107, None, None, None, None, None]
    assert gpus[0].throttled == [0, 0, 0, 0, None, 0, 0]


def test_the_chart_knows_what_ran(client: TestClient) -> None:
    runtime = runtime_of(client)
    now = utc_now()
    number = launch(
        client, host_id=runtime.host_id, started_at=now - timedelta(minutes=5), ended_at=None, state="ready"
    )
    old = launch(client, host_id=runtime.host_id)
    claim(client, number, [0, 1])
    runtime.live["benchmarks_running"] = [{"name": "bench_serving", "started_at": now - timedelta(seconds=9)}]
    told = client.get("/api/v1/gpus/past", params={"length_s": 900, "points": 300}).json()
    assert told["bucket_s"] == 5
    by_name = {band.get("id") or band["name"]: band for band in told["bands"]}
    assert by_name[f"L{number}"]["gpus"] == [0, 1]
    assert "until" not in by_name[f"L{number}"] or by_name[f"L{number}"]["until"] is None
    assert by_name["bench_serving"]["kind"] == "benchmark"
    assert f"L{old}" not in by_name
    runtime.live["benchmarks_running"] = []
