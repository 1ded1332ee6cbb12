"""Figures of a server over time: stored, thinned, summed up and forgotten."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import Session, select
from tests.daemons import application, running_daemon
from tests.helpers import wait_until
from tests.launches.reading import only, read_log

from sitrepd.facts import Scope, tell
from sitrepd.launches import samples
from sitrepd.launches.apply import apply_events
from sitrepd.launches.engines.base import Compiled, Throughput, Timings
from sitrepd.launches.models import Launch, LaunchRecord, LaunchSample
from sitrepd.launches.slice import LAUNCH
from sitrepd.runtime import Runtime

T0 = datetime(2026, 12, 1, tzinfo=UTC)


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Any]:
    with application(tmp_path / "store") as client:
        yield client


def runtime_of(client: Any) -> Runtime:
    runtime: Runtime = client.app.state.runtime
    return runtime


def told(client: Any, *events: Any) -> Runtime:
    """A launch, L1, whose log has told these events."""
    runtime = runtime_of(client)

    def job(db: Session) -> None:
        if db.get(Launch, 1) is None:
            tell(db, LAUNCH, LaunchRecord(state="ready"), Scope(runtime.registry, "told:test", None))
        launch = db.get(Launch, 1)
        assert launch is not None
        apply_events(db, launch, events)

    runtime.store.write(job)
    return runtime


def decode(second: float, tokens: float, accept: float | None = None, rank: str = "", running: int = 4) -> Throughput:
    at = T0 + timedelta(seconds=second)
    return Throughput(at=at, rank=rank, batch="decode", gen_tok_s=tokens, accept_len=accept, running=running, queued=0)


def test_a_second_is_one_row(app: Any) -> None:
    runtime = told(app, decode(0.1, 90.0), decode(0.9, 94.0, 2.8), decode(1.2, 95.0))
    with runtime.store.read() as db:
        rows = db.exec(select(LaunchSample)).all()
    assert [(row.gen_tok_s, row.accept_len, row.running) for row in rows] == [(94.0, 2.8, 4), (95.0, None, 4)]


def test_ranks_are_added_up(app: Any) -> None:
    runtime = told(app, decode(0, 90.0, 2.0, "DP0"), decode(0, 30.0, 3.0, "DP1"))
    with runtime.store.read() as db:
        row = db.exec(select(LaunchSample)).one()
    assert (row.gen_tok_s, row.running, row.accept_len) == (120.0, 8, 2.5)


def test_a_recorded_log_gives_its_figures(app: Any) -> None:
    runtime = told(app, *only(read_log("h200-0.5.16-eagle3-s3"), Throughput))
    body = app.get("/api/v1/launches/L1/samples").json()
    assert body["summary"]["accept_len"] == 1.0
    assert 100 < body["summary"]["gen_tok_s"] < 600
    assert body["summary"]["seconds"] == len(body["points"])
    assert len({point["at"] for point in body["points"]}) == len(body["points"])
    with runtime.store.read() as db:
        events = [row for row in db.exec(select(Launch)).all() if row.throughput]
    assert len(events) == 1


def test_few_points_are_means(app: Any) -> None:
    told(app, *(decode(second, float(second)) for second in range(100)))
    points = app.get("/api/v1/launches/L1/samples", params={"points": 10}).json()["points"]
    assert [point["gen_tok_s"] for point in points][:2] == pytest.approx([4.5, 14.5], abs=0.6)
    assert len(points) == 10
    since = (T0 + timedelta(seconds=90)).isoformat()
    late = app.get("/api/v1/launches/L1/samples", params={"since": since}).json()
    assert [point["gen_tok_s"] for point in late["points"]] == [float(second) for second in range(90, 100)]
    assert late["summary"]["peak_gen_tok_s"] == 99.0


def test_idle_seconds_do_not_lower_the_mean(app: Any) -> None:
    runtime = told(app, decode(0, 100.0, 3.0), decode(1, 300.0, 1.0), decode(2, 0.0, running=0))
    with runtime.store.read() as db:
        whole = samples.summary(db, 1)
    assert whole is not None
    assert (whole.gen_tok_s, whole.peak_gen_tok_s, whole.accept_len, whole.seconds) == (200.0, 300.0, 1.5, 3)


def test_nothing_is_known_of_a_launch_without_figures(app: Any) -> None:
    told(app)
    assert app.get("/api/v1/launches/L1/samples").json() == {"points": []}
    assert app.get("/api/v1/launches/L7/samples").status_code == 404


def test_old_figures_are_forgotten(app: Any) -> None:
    runtime = told(app, decode(0, 1.0), decode(3600, 2.0))
    assert runtime.store.write(lambda db: samples.forget(db, T0 + timedelta(minutes=1))) == 1
    assert runtime.store.write(lambda db: samples.forget(db, T0 + timedelta(minutes=1))) == 0
    with runtime.store.read() as db:
        assert [row.gen_tok_s for row in db.exec(select(LaunchSample)).all()] == [2.0]


def test_the_engines_own_timings_are_kept(app: Any) -> None:
    told(app, Timings(at=T0, seconds={"load_weight": 0.06, "cuda_graph.prefill": 1.5}))
    assert app.get("/api/v1/launches/L1").json()["timings"] == {"load_weight": 0.06, "cuda_graph.prefill": 1.5}


def test_a_compilation_while_serving_is_a_warning(app: Any) -> None:
    told(app, Compiled(at=T0, what="_fwd_kernel", seconds=3.5, after_ready=True))
    warnings = app.get("/api/v1/launches/L1").json()["warnings"]
    assert warnings == ["_fwd_kernel was compiled for 3.5 s while serving: what was measured then waited."]


@pytest.mark.slow
def test_figures_of_a_running_server_are_stored(tmp_path: Path) -> None:
    """A decode line alone does not wait for an event; it is there soon, and tells no event of its own."""
    log = tmp_path / "log"
    line = (
        "Decode batch, #running-req: 4, #token: 289, token usage: 0.04, gen throughput (token/s): 94.0, #queue-req: 0"
    )
    script = (
        "import time\nprint('[2026-12-01 01:00:00] up', flush=True)\n"
        f"while True: print(time.strftime('[%Y-%m-%d %H:%M:%S]'), {line!r}, flush=True); time.sleep(1)\n"
    )
    with running_daemon(tmp_path / "store") as daemon:
        body = {"argv": [sys.executable, "-c", script], "cwd": str(tmp_path), "engine": "sglang", "log_path": str(log)}
        assert daemon.client.post("/api/v1/launches", json=body).status_code == 201

        def points() -> int:
            return len(daemon.client.get("/api/v1/launches/L1/samples").json()["points"])

        assert wait_until(lambda: points() >= 8, interval_s=0.2)
        launch = daemon.client.get("/api/v1/launches/L1").json()
        assert launch["throughput"]["gen_tok_s"] == 94.0
        seconds = daemon.client.get("/api/v1/launches/L1/samples").json()["points"]
        assert len({point["at"] for point in seconds}) == len(seconds)
        events = [event for event in daemon.client.get("/api/v1/events").json() if event["subject"] == "L1"]
        assert len(events) < 8


@pytest.mark.slow
def test_an_ended_launch_keeps_the_means_of_its_life(tmp_path: Path) -> None:
    line = "Decode batch, #running-req: 4, accept len: 2.80, gen throughput (token/s): {}, #queue-req: 0"
    lines = [f"[2026-12-01 01:00:0{n}] {line.format(90.0 + n)}" for n in range(5)]
    with running_daemon(tmp_path / "store") as daemon:
        daemon.client.post("/api/v1/sessions", json={"name": "s"})
        script = "print({!r})".format("\n".join(lines))
        body = {"argv": [sys.executable, "-c", script], "cwd": str(tmp_path), "engine": "sglang"}
        assert daemon.client.post("/api/v1/launches", json=body).status_code == 201

        def ended() -> dict[str, Any] | None:
            launch: dict[str, Any] = daemon.client.get("/api/v1/launches/L1").json()
            return launch if "ended_at" in launch else None

        launch = wait_until(ended, interval_s=0.1)
        assert launch is not None
        life = launch["throughput"]["life"]
        assert (life["gen_tok_s"], life["accept_len"], life["seconds"]) == (92.0, 2.8, 5)
        text = daemon.client.get("/api/v1/sessions/current/checkpoints/latest?format=md").text
        assert "its log shows 92.0 tok/s, accept length 2.8 on average of 5 s" in text
