from __future__ import annotations

import json
import os
import shlex
import socket
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlmodel import Session
from tests.backfill.projects import EAGLE, FLAGS, SPECULATIVE, log, read, result, utc, write

from sitrepd.backfill import told
from sitrepd.hardware.hosts import machine_key
from sitrepd.launches.estimate import known
from sitrepd.launches.models import Launch

FAILED = "h200-0.5.16-fail-memfraction"


@pytest.fixture
def session(client: TestClient) -> TestClient:
    client.post("/api/v1/sessions", json={"name": "old work"}).raise_for_status()
    return client


def backfill(client: TestClient, folder: Path, **where: str) -> Counter[str]:
    """Read the folder and tell it; how many facts had which outcome."""
    found = read(folder)

    def post(part: dict[str, Any]) -> Any:
        body = json.dumps({"host": "elsewhere", **where, **part}, default=float)
        answer = client.post("/api/v1/backfill", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 200, answer.text
        return answer.json()["facts"]

    return Counter(one["outcome"] for one in told.tell(post, found, told.wanted(found, followed=True)).values())


def listed(client: TestClient, plural: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = client.get(f"/api/v1/{plural}", params={"limit": 1000}).json()["data"]
    return rows[::-1]


def store_of(client: TestClient) -> Any:
    return client.app.state.runtime.store  # type: ignore[attr-defined]


def project(folder: Path) -> Path:
    write(folder / "logs" / "eagle.log", log(EAGLE))
    write(folder / "logs" / "broken.log", log(FAILED))
    write(folder / "results.jsonl", result("sglang-0.5.16-eagle3-3-steps"))
    write(folder / "run.sh", f"python -m sglang.launch_server {FLAGS}{SPECULATIVE} > logs/eagle.log 2>&1 &\n")
    write(folder / "train" / "train.log", "".join(f"epoch={i} loss=0.{9 - i}\n" for i in range(5)))
    return folder


def test_a_project_becomes_launches_benchmarks_training_and_findings(session: TestClient, tmp_path: Path) -> None:
    assert backfill(session, project(tmp_path / "p")) == {"new": 5}
    eagle, broken = listed(session, "launches")
    assert eagle["state"] == "exited"
    assert eagle["watched"] is False
    path = str(tmp_path / "p" / "logs" / "eagle.log")
    assert (eagle["log_path"], eagle["imported_from"], eagle["provenance"]) == (path, path, f"imported from {path}")
    assert (eagle["started_at"], eagle["ready_at"]) == ("2026-12-01T01:20:40Z", "2026-12-01T01:21:33Z")
    assert shlex.split(eagle["command"])[:3] == ["python", "-m", "sglang.launch_server"]
    assert eagle["settings"]["speculative_num_steps"] == 3
    assert {"load_weights", "capture_verify"} <= {phase["name"] for phase in eagle["phases"]}
    assert "command" not in broken
    (run,) = listed(session, "benchmarks")
    assert run["launch"] == eagle["id"]
    assert run["metrics"]["output_throughput"]["value"] == pytest.approx(420.6354488)
    (finding,) = listed(session, "findings")
    assert (finding["kind"], finding["status"], finding["evidence"][0]) == ("root_cause", "open", broken["id"])
    assert any(text.startswith("log line 42: ValueError") for text in finding["evidence"])
    (training,) = listed(session, "trainings")
    assert [point["epoch"] for point in training["points"]] == [0, 1, 2, 3, 4]


def test_twice_is_the_same_as_once(session: TestClient, tmp_path: Path) -> None:
    backfill(session, project(tmp_path / "p"))
    before = session.get("/api/v1/sessions/current/export").text
    events = session.get("/api/v1/events", params={"tail": 1}).json()
    assert backfill(session, tmp_path / "p") == {"known": 5}
    assert session.get("/api/v1/sessions/current/export").text == before
    assert session.get("/api/v1/events", params={"tail": 1}).json() == events


def test_a_log_that_has_grown_is_brought_up_to_date(session: TestClient, tmp_path: Path) -> None:
    whole = log(EAGLE)
    path = write(
        tmp_path / "s.log", whole[: whole.index("Capture target verify CUDA graph begin")].rpartition("\n")[0] + "\n"
    )
    backfill(session, tmp_path)
    (launch,) = listed(session, "launches")
    assert launch["state"] == "lost"
    assert "ready_at" not in launch
    session.patch(f"/api/v1/launches/{launch['id']}", json={"name": "my best"}).raise_for_status()
    write(path, whole)
    assert backfill(session, tmp_path) == {"updated": 1}
    (launch,) = listed(session, "launches")
    assert (launch["name"], launch["state"], launch["ready_at"]) == ("my best", "exited", "2026-12-01T01:21:33Z")
    assert {size["name"] for size in launch["sizes"]} >= {"kv_tokens", "graph_bytes"}
    names = [phase["name"] for phase in launch["phases"]]
    assert len(names) == len(set(names))
    write(path, whole + log(FAILED))
    assert backfill(session, tmp_path)["new"] == 2, "the second start, and why it failed"
    assert len(listed(session, "launches")) == 2


def test_training_that_goes_on_is_one_run(session: TestClient, tmp_path: Path) -> None:
    lines = [f"epoch={i} loss=0.{9 - i}\n" for i in range(8)]
    path = write(tmp_path / "train.log", "".join(lines[:4]))
    backfill(session, tmp_path)
    write(path, "".join(lines))
    assert backfill(session, tmp_path) == {"updated": 1}
    (run,) = listed(session, "trainings")
    assert len(run["points"]) == 8


def test_one_finding_for_a_cause_that_came_again(session: TestClient, tmp_path: Path) -> None:
    write(tmp_path / "a" / "1.log", log(FAILED))
    backfill(session, tmp_path / "a")
    (finding,) = listed(session, "findings")
    session.patch(
        f"/api/v1/findings/{finding['id']}", json={"status": "confirmed", "title": "Too little"}
    ).raise_for_status()
    write(tmp_path / "b" / "2.log", log(FAILED).replace("846005047", "846005048"))
    assert backfill(session, tmp_path / "b") == {"new": 1, "updated": 1}
    (finding,) = listed(session, "findings")
    assert (finding["status"], finding["title"]) == ("confirmed", "Too little")
    assert finding["evidence"][:2] == [row["id"] for row in listed(session, "launches")]


def test_what_the_daemon_has_watched_itself_stays_one_launch(session: TestClient, tmp_path: Path) -> None:
    path = write(tmp_path / "s.log", log(FAILED))
    store = store_of(session)

    def watched(db: Session) -> None:
        row = Launch(provenance="observed", watched=True, log_path=str(path), settings={"random_seed": 846005047})
        db.add(row)

    store.write(watched)
    assert backfill(session, tmp_path) == {"observed": 1}
    assert len(listed(session, "launches")) == 1
    assert not listed(session, "findings"), "the daemon's own diagnosis stands"
    assert backfill(session, tmp_path) == {"observed": 1}
    write(path, log(FAILED) + "And one more line.\n")
    assert backfill(session, tmp_path) == {"observed": 1}, "also where the log has grown"
    assert not listed(session, "findings")


def test_later_starts_are_foretold_from_logs_read_on_this_machine(session: TestClient, tmp_path: Path) -> None:
    write(tmp_path / "s.log", log(EAGLE))
    host = session.app.state.runtime.host_id  # type: ignore[attr-defined]
    backfill(session, tmp_path, host=socket.gethostname(), machine=machine_key())

    def new(db: Session) -> int:
        row = Launch(
            provenance="observed", watched=True, engine="sglang", model="/models/target", draft_model="/models/draft",
            host_id=host, started_at=datetime.now(UTC),
        )  # fmt: skip
        db.add(row)
        db.flush()
        return row.id or 0

    store = store_of(session)
    number = store.write(new)
    with store.read() as db:
        (earlier,) = known(db, number, None, None).same
        assert sum(earlier.spans.values()) == pytest.approx(53, abs=1)
        assert known(db, number, None, None).cold is False, "the first of its kind compiled what later ones find"
    host = None
    with store.read() as db:
        assert not known(db, store.write(new), None, None).same, "of another machine nothing is known"


def test_logs_of_another_machine_belong_to_its_host(session: TestClient, tmp_path: Path) -> None:
    write(tmp_path / "s.log", log(EAGLE))
    backfill(session, tmp_path, host="gpu-box", machine="0123")
    (launch,) = listed(session, "launches")
    hosts = {row["id"]: row["name"] for row in listed(session, "hosts")}
    assert hosts[launch["host"]] == "gpu-box"
    backfill(session, tmp_path, host="gpu-box", machine="0123")
    assert len(listed(session, "hosts")) == len(hosts)


@pytest.mark.slow
def test_a_benchmark_that_was_imported_before_gets_its_launch(session: TestClient, tmp_path: Path) -> None:
    body = result("sglang-0.5.16-eagle3-3-steps")
    session.post("/api/v1/benchmarks/import", content=body, params={"name": "x.jsonl"}).raise_for_status()
    assert "launch" not in listed(session, "benchmarks")[0]
    write(tmp_path / "s.log", log(EAGLE))
    write(tmp_path / "x.jsonl", body)
    assert backfill(session, tmp_path) == {"new": 1, "known": 1}
    (run,) = listed(session, "benchmarks")
    assert run["launch"] == listed(session, "launches")[0]["id"]


def test_a_server_that_still_writes_its_log_is_left_to_the_daemon(tmp_path: Path) -> None:
    text = log(EAGLE)
    path = write(tmp_path / "s.log", text[: text.index("SIGTERM")].rpartition("\n")[0] + "\n")
    with path.open("a"):
        found = read(tmp_path)
        assert found.starts[0].running == os.getpid()
        assert not told.wanted(found, followed=True)
        (start,) = told.wanted(found, followed=False)
        assert told.launch(start)["fact"]["state"] == "ready"


def test_no_checkpoint_is_made_for_each_of_them(session: TestClient, tmp_path: Path) -> None:
    for at in range(5):
        write(tmp_path / f"{at}.log", log(FAILED).replace("846005047", f"84600504{at}"))
    backfill(session, tmp_path)
    kinds = {event["kind"] for event in session.get("/api/v1/events", params={"tail": 100}).json()}
    assert "checkpoint.created" not in kinds


def test_an_old_start_reads_as_history_and_not_as_running(session: TestClient, tmp_path: Path) -> None:
    text = log(EAGLE)
    write(tmp_path / "s.log", text[: text.index("SIGTERM")].rpartition("\n")[0] + "\n")
    backfill(session, tmp_path)
    session.post("/api/v1/sessions/current/checkpoints").raise_for_status()
    told_text = session.get("/api/v1/sessions/current/checkpoints/latest", params={"format": "md"}).text
    assert told_text.startswith("Sitrep C")
    now = told_text.partition("## Now")[2].partition("\n## ")[0]
    assert "L1" not in now
    assert "L1 s is" not in told_text


def test_times_of_failures_are_those_of_the_logs(session: TestClient, tmp_path: Path) -> None:
    write(tmp_path / "s.log", log(FAILED), utc("2027-01-01 00:00"))
    backfill(session, tmp_path)
    (launch,), (finding,) = listed(session, "launches"), listed(session, "findings")
    assert launch["ended_at"].startswith("2026-12-01T02:09")
    assert finding["at"] == launch["ended_at"]
    assert datetime.fromisoformat(finding["at"]) - datetime.fromisoformat(launch["at"]) < timedelta(minutes=5)
