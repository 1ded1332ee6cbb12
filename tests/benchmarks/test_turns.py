"""Several servers that are measured in turns: one at a time, to and fro, whoever leaves and whatever is killed."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.benchmarks.benches import Bench, go, launch, ready
from tests.benchmarks.servers import MAPPING, SERVER, write
from tests.cli.running import Sitrep
from tests.daemons import running_daemon
from tests.helpers import all_ended, free_port, wait_until

from sitrepd.benchmarks.running.models import BenchmarkJob
from sitrepd.benchmarks.running.turns import next_of

_DIARY = """
import json, os, sys
folder, launch, output, fails = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
with open(os.path.join(folder, "diary"), "a") as diary:
    print(launch, os.path.basename(os.path.dirname(output)), file=diary)
os.close(os.open(os.path.join(folder, "alone"), os.O_CREAT | os.O_EXCL))
os.unlink(os.path.join(folder, "alone"))
if launch in fails: sys.exit("the client gave up")
json.dump({"stats": {"tps": 94.5, "ttft_s": 0.25}, "done": 1}, open(output, "w"))
"""
"""Notes that it was here, and fails where another is at the same time."""
_LATE = """
import os, sys, time
while not os.path.exists(sys.argv[2]): time.sleep(0.02)
with open(os.path.join(os.path.dirname(sys.argv[2]), "diary"), "a") as diary: print("up", file=diary)
"""


@dataclass
class Two(Bench):
    """And another server."""

    other: str

    def turns(self, **more: Any) -> list[int]:
        """The numbers of the jobs."""
        first = self.run(**{"also": [self.other], **more})
        assert first["turns"][0] == first["id"]
        return list(first["turns"])

    def words(self, folder: Path, *fails: str) -> list[str]:
        return [sys.executable, "-c", _DIARY, str(folder), "{launch}", "{output}", *fails]

    def count(self) -> int:
        return int(self.daemon.client.get("/api/v1/benchmarks/jobs").json()["count"])

    def under_way(self, number: int, run: int) -> dict[str, Any]:
        """Its client has asked the server, and waits."""
        wait_until(lambda: self.job(number)["run"] == run and self.job(number).get("done") == 1)
        return self.job(number)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    folder = tmp_path_factory.mktemp("turns")
    server, client = write(folder)
    with running_daemon(folder / "store") as daemon:
        daemon.client.post("/api/v1/sessions", json={"name": "s"}).raise_for_status()
        daemon.client.put("/api/v1/benchmarks/mappings/mine", json=MAPPING).raise_for_status()
        both = [launch(daemon, server, name) for name in ("here", "there")]
        first, second = (ready(daemon, name) for name in both)
        yield Two(daemon, first, client, folder, second)


def diary(folder: Path) -> list[str]:
    return (folder / "diary").read_text().splitlines()


def test_each_round_goes_the_other_way() -> None:
    """What grows by one with each run weighs on all alike after every second round."""
    jobs = [BenchmarkJob(id=id, launch_id=id, provenance="", tool="command", run=0) for id in (7, 8, 9)]
    order = []
    while jobs[0].run + jobs[1].run + jobs[2].run < 3 * 5:
        job = next_of(jobs)
        order.append((job.run, job.id))
        job.run += 1
    assert order[:3] == [(0, 7), (0, 8), (0, 9)]
    assert [id for _, id in order[3:]] == [7, 8, 9, 9, 8, 7, 7, 8, 9, 9, 8, 7]
    at = {id: sum(place for place, (run, of) in enumerate(order) if of == id and run) for id in (7, 8, 9)}
    assert len(set(at.values())) == 1


def test_servers_are_measured_in_turns(two: Two, tmp_path: Path) -> None:
    asked = {"flags": two.words(tmp_path), "repeat": 3, "warmup": True, "name": "turns", "baseline": True}
    numbers = two.turns(**asked)
    jobs = [two.ended(number) for number in numbers]
    assert [(job["state"], job["launch"], job["turns"]) for job in jobs] == [
        ("done", two.launch, numbers), ("done", two.other, numbers),
    ]  # fmt: skip
    a, b = two.launch, two.other
    assert diary(tmp_path) == [
        f"{a} warm-up", f"{b} warm-up", f"{a} run-1", f"{b} run-1", f"{b} run-2", f"{a} run-2", f"{a} run-3",
        f"{b} run-3",
    ]  # fmt: skip
    found = [two.benchmark(one) for job in jobs for one in job["benchmarks"]]
    assert [(one["launch"], one["name"], one.get("baseline", False)) for one in found] == [
        *[(a, f"turns {a}", True)] * 3, *[(b, f"turns {b}", False)] * 3,
    ]  # fmt: skip


def test_one_that_fails_leaves_the_turns(two: Two, tmp_path: Path) -> None:
    jobs = [two.ended(number) for number in two.turns(flags=two.words(tmp_path, two.launch), repeat=2)]
    assert [(job["state"], len(job["benchmarks"])) for job in jobs] == [("failed", 0), ("done", 2)]
    assert diary(tmp_path) == [f"{two.launch} run-1", f"{two.other} run-1", f"{two.other} run-2"]


def test_one_that_is_stopped_leaves_the_turns(two: Two) -> None:
    """The one that waits while the other is measured, and says so."""
    first, second = two.turns(seconds=-1, repeat=2)
    go(two.under_way(first, 1))
    now = two.under_way(second, 1)
    assert "folder" not in two.job(first)
    told = two.daemon.client.post("/api/v1/sessions/current/checkpoints", params={"format": "md"}).text
    assert f"- Benchmark job {first} against {two.launch} (command) waits for its turn, 2 of 2 next" in told
    stopped = two.daemon.client.post(f"/api/v1/benchmarks/jobs/{first}/stop").json()
    assert (stopped["state"], len(stopped["benchmarks"])) == ("stopped", 1)
    go(now)
    go(two.under_way(second, 2))
    assert len(two.ended(second)["benchmarks"]) == 2


def test_none_begins_before_all_servers_are_free(two: Two) -> None:
    """Another benchmark runs against the second."""
    foreign = two.run(launch=two.other, seconds=-1)["id"]
    now = two.under_way(foreign, 1)
    numbers = two.turns()
    go(now)
    jobs = [two.ended(number) for number in (foreign, *numbers)]
    assert [job["state"] for job in jobs] == ["done"] * 3
    assert jobs[0]["ended_at"] <= jobs[1]["started_at"] <= jobs[2]["started_at"]


def test_none_begins_before_all_servers_are_ready(two: Two, tmp_path: Path) -> None:
    server = tmp_path / "late.py"
    server.write_text(_LATE + SERVER)
    late = launch(two.daemon, server, "late", None, str(tmp_path / "go"))
    asked = {"also": [late], "flags": two.words(tmp_path), "repeat": 2}
    jobs = two.count()
    refusal = two.refused(409, tool="command", mapping="mine", **asked)
    assert f"{late} is " in refusal
    assert "all servers must be up at once" in refusal
    assert two.count() == jobs
    numbers = two.turns(**asked, wait_s=600)
    two.ended(two.run(launch=two.other)["id"])  # as long as a client takes that does not wait
    (tmp_path / "go").touch()
    assert [two.ended(number)["state"] for number in numbers] == ["done", "done"]
    a = two.launch
    assert diary(tmp_path) == ["up", f"{a} run-1", f"{late} run-1", f"{late} run-2", f"{a} run-2"]


def test_the_same_server_is_refused(two: Two) -> None:
    """By its name, and by its port where it has two."""
    jobs, asked = two.count(), {"tool": "command", "mapping": "mine", "flags": ["true"]}
    assert f"{two.launch} is named twice" in two.refused(422, also=[two.other, two.launch.lower()], **asked)
    assert "There is no launch 'L99'" in two.refused(404, also=["L99"], **asked)
    words = [sys.executable, "-c", "import time; time.sleep(9999)"]
    body = {"argv": words, "ready_pattern": "fired up", "port": free_port()}
    first, second = (two.daemon.client.post("/api/v1/launches", json=body).json()["id"] for _ in range(2))
    told = two.refused(409, **{**asked, "launch": two.other, "also": [first, second], "wait_s": 600})
    assert told.startswith(f"{first} and {second} are the same server, at port {body['port']}")
    assert two.count() == jobs


@pytest.mark.slow
def test_a_killed_daemon_goes_on_with_the_turns(two: Two) -> None:
    """Killed in the first run of one and in the second of the other; asked to stop one just before."""
    first, second = two.turns(seconds=-1, repeat=2)
    folder = Path(two.under_way(first, 1)["folder"])
    pid = json.loads((folder / "status.json").read_text())["pid"]
    two.daemon.end(9)
    (folder / "result.json.go").touch()
    wait_until(lambda: all_ended(pid))
    wait_until(lambda: "ended_at" in json.loads((folder / "status.json").read_text()))
    two.daemon.start()
    go(two.under_way(second, 1))
    two.under_way(second, 2)
    two.daemon.restart()
    now = two.under_way(second, 2)
    assert "folder" not in two.job(first)
    go(now)
    folder = Path(two.under_way(first, 2)["folder"])
    pid = json.loads((folder / "status.json").read_text())["pid"]
    two.daemon.end(9)
    with closing(sqlite3.connect(two.daemon.data_dir / "sitrep.db")) as db, db:
        db.execute("UPDATE benchmark_job SET stop_asked = 1 WHERE id = ?", (first,))
    two.daemon.start()
    ended = [two.ended(one) for one in (first, second)]
    assert [(job["state"], len(job["benchmarks"])) for job in ended] == [("stopped", 1), ("done", 2)]
    assert all_ended(pid)


def test_the_command_shows_all_of_them(two: Two, tmp_path: Path) -> None:
    sitrep = Sitrep(two.daemon.data_dir, tmp_path)
    words = ["bench", "run", two.launch, two.other, "--tool", "command", "--mapping", "mine", "-n", "2"]
    shown = sitrep(*words, "--", *two.words(tmp_path)).ok().out
    first, second = diary(tmp_path)[0].split()[0], diary(tmp_path)[1].split()[0]
    assert (first, second) == (two.launch, two.other)
    assert shown.count(" is done: B") == 2
    assert [line for line in shown.splitlines() if " here " in line or " there " in line]
    jobs = sitrep(*words, "--json", "--", *two.words(tmp_path, two.other)).out.splitlines()
    assert {(job["launch"], job["state"]) for job in map(json.loads, jobs) if "ended_at" in job} == {
        (two.launch, "done"), (two.other, "failed"),
    }  # fmt: skip
    told = sitrep(*words, "--detach", "--", *two.words(tmp_path)).ok().out
    assert told.count("`sitrep bench follow ") == 2
