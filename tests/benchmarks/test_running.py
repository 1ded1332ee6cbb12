"""Benchmarks that Sitrep runs: measured by processes of their own, stored once, and gone on with by the next daemon."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.benchmarks.benches import Bench, go, launch, ready
from tests.benchmarks.servers import MAPPING, write
from tests.daemons import running_daemon
from tests.helpers import all_ended, wait_until

TOKEN = "sk-" + "q8Wz4rTy9pLm2cVb7nXk" + "ABCDEFGH"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("bench")
    server, client = write(folder)
    with running_daemon(folder / "store") as daemon:
        daemon.client.post("/api/v1/sessions", json={"name": "s"}).raise_for_status()
        daemon.client.put("/api/v1/benchmarks/mappings/mine", json=MAPPING).raise_for_status()
        yield Bench(daemon, ready(daemon, launch(daemon, server, "toy")), client, folder)


def test_repeats_are_runs_of_one_configuration(bench: Bench) -> None:
    job = bench.ended(bench.run(repeat=2, config={"steps": 2}, workload={"load": "toy"}, baseline=True)["id"])
    assert (job["state"], job["run"], job["repeat"], len(job["benchmarks"])) == ("done", 2, 2, 2)
    first, second = (bench.benchmark(one) for one in job["benchmarks"])
    assert first["launch"] == second["launch"] == bench.launch
    assert (first["name"], first["config"], first["baseline"]) == ("toy", {"steps": 2}, True)
    assert first["workload"] == {"load": "toy", "num_prompts": 2}
    assert first["metrics"]["output_throughput"] == {"value": 94.5, "unit": "tok/s", "better": "higher"}
    assert first["metrics"]["median_ttft_ms"]["value"] == 250
    shown = bench.daemon.client.get("/api/v1/sessions/current/comparison").json()
    (row,) = [row for row in shown["rows"] if set(job["benchmarks"]) <= set(row["ids"])]
    assert row["verdict"]["count"] == 2


def test_what_the_server_counted_belongs_to_the_run(bench: Bench) -> None:
    """A token by the prefill and a hundred in forty steps for each request, whatever came before."""
    job = bench.ended(bench.run()["id"])
    told = bench.benchmark(job["benchmarks"][0])
    values = {name: one["value"] for name, one in told["metrics"].items()}
    assert (values["accept_length"], values["cache_hit_rate"]) == (2.5, 0.2)
    assert "of this run, by the server's counters" in told["note"]


def test_a_run_with_requests_that_failed_is_marked(bench: Bench) -> None:
    job = bench.ended(bench.run()["id"])
    told = bench.benchmark(job["benchmarks"][0])
    assert told["metrics"]["failed"]["value"] == 1
    shown = bench.daemon.client.get("/api/v1/sessions/current/comparison").json()
    (row,) = [row for row in shown["rows"] if told["id"] in row["ids"]]
    assert any("1 request failed" in mark for mark in row["verdict"]["marks"])


def test_progress_is_read_from_its_bar(bench: Bench) -> None:
    number = bench.run(seconds=-1)["id"]
    wait_until(lambda: bench.job(number).get("done") == 1)
    now = bench.job(number)
    assert (now["state"], now["run"], now["total"]) == ("running", 1, 2)
    told = bench.daemon.client.post("/api/v1/sessions/current/checkpoints", params={"format": "md"}).text
    assert f"- Benchmark job {number} against {bench.launch} (command) is in run 1 of 1; `sitrep bench follow" in told
    go(now)
    assert bench.ended(number)["state"] == "done"


def test_no_secret_is_left(bench: Bench) -> None:
    job = bench.ended(bench.run(env={"BENCH_TOKEN": TOKEN})["id"])
    assert job["state"] == "done"
    told = bench.daemon.client.get(f"/api/v1/benchmarks/{job['benchmarks'][0]}/original")
    assert told.status_code == 200
    assert json.loads(told.content)["stats"] == {"tps": 94.5, "ttft_s": 0.25}
    kept = [path for path in bench.daemon.data_dir.rglob("*") if path.is_file()]
    assert not [path for path in kept if TOKEN.encode() in path.read_bytes()]


_WRITES_ITS_PATH = """
import json, os, sys
told = {"stats": {"tps": 1, "ttft_s": 1}, "done": 1, "path": os.environ["PATH"], "own": os.environ.get("OWN")}
json.dump(told, open(sys.argv[1], "w"))
"""


@pytest.mark.parametrize(
    ("env", "path"),
    [(None, os.environ["PATH"]), ({"OWN": "x"}, os.environ["PATH"]), ({"OWN": "x", "PATH": "/bin"}, "/bin")],
)
def test_a_command_runs_in_its_callers_environment_or_the_launchs(
    bench: Bench, env: dict[str, str] | None, path: str
) -> None:
    """A sweep and whoever asks by REST tell none, or a variable or two."""
    job = bench.ended(bench.run(flags=[sys.executable, "-c", _WRITES_ITS_PATH, "{output}"], env=env)["id"])
    assert job["state"] == "done", job
    told = bench.daemon.client.get(f"/api/v1/benchmarks/{job['benchmarks'][0]}/original").json()
    assert (told["path"], told["own"]) == (path, (env or {}).get("OWN"))


def test_a_client_that_fails_says_what_it_printed(bench: Bench) -> None:
    job = bench.ended(bench.run(seconds=3, repeat=3)["id"])
    assert (job["state"], job["benchmarks"]) == ("failed", [])
    assert job["error"].startswith("Run 1 of 3 ended with exit status 1. It printed last: ")
    assert job["error"].endswith("the client gave up")


def test_runs_against_one_server_wait_for_each_other(bench: Bench) -> None:
    first, second = bench.run(seconds=-1)["id"], bench.run()["id"]
    wait_until(lambda: bench.job(first).get("done") == 1)
    assert bench.job(second)["state"] == "queued"
    go(bench.job(first))
    assert bench.ended(second)["state"] == "done"
    assert bench.job(first)["ended_at"] <= bench.job(second)["started_at"]


def test_one_that_is_stopped_keeps_what_it_has_measured(bench: Bench) -> None:
    number = bench.run(seconds=-1, repeat=2)["id"]
    wait_until(lambda: bench.job(number).get("done") == 1)
    go(bench.job(number))
    wait_until(lambda: bench.job(number)["run"] == 2 and bench.job(number).get("done") == 1)
    stopped = bench.daemon.client.post(f"/api/v1/benchmarks/jobs/{number}/stop").json()
    assert (stopped["state"], len(stopped["benchmarks"])) == ("stopped", 1)
    again = bench.daemon.client.post(f"/api/v1/benchmarks/jobs/{number}/stop").json()
    assert again["state"] == "stopped"


def test_one_that_waits_for_its_turn_is_stopped_at_once(bench: Bench) -> None:
    first, second, third = bench.run(seconds=-1)["id"], bench.run()["id"], bench.run()["id"]
    wait_until(lambda: bench.job(first).get("done") == 1)
    stopped = bench.daemon.client.post(f"/api/v1/benchmarks/jobs/{second}/stop").json()
    assert (stopped["state"], stopped["benchmarks"]) == ("stopped", [])
    assert (bench.job(first)["state"], bench.job(third)["state"]) == ("running", "queued")
    go(bench.job(first))
    assert bench.ended(third)["state"] == "done"
    assert bench.job(first)["state"] == "done"


def test_what_takes_too_long_is_ended(bench: Bench) -> None:
    job = bench.ended(bench.run(seconds=-1, timeout_s=0.5)["id"])
    assert (job["state"], job["error"]) == ("failed", "The run took longer than 0.5 s, and was ended.")


@pytest.mark.slow
def test_a_killed_daemon_loses_no_run_and_measures_none_twice(bench: Bench) -> None:
    """The client ends while no daemon runs, and its run is taken in by the next one."""
    number = bench.run(seconds=-1, repeat=2)["id"]
    wait_until(lambda: bench.job(number).get("done") == 1)
    folder = Path(bench.job(number)["folder"])
    pid = json.loads((folder / "status.json").read_text())["pid"]
    bench.daemon.end(9)
    Path(folder / "result.json.go").touch()
    wait_until(lambda: all_ended(pid))
    wait_until(lambda: "ended_at" in json.loads((folder / "status.json").read_text()))
    bench.daemon.start()
    wait_until(lambda: bench.job(number)["run"] == 2 and bench.job(number).get("done") == 1)
    assert len(bench.job(number)["benchmarks"]) == 1
    pid = json.loads((Path(bench.job(number)["folder"]) / "status.json").read_text())["pid"]
    bench.daemon.restart()
    wait_until(lambda: bench.job(number).get("done") == 1)
    go(bench.job(number))
    job = bench.ended(number)
    assert (job["state"], len(job["benchmarks"])) == ("done", 2)
    assert all_ended(pid)


@pytest.mark.slow
def test_a_run_whose_supervisor_was_killed_too_is_lost(bench: Bench) -> None:
    number = bench.run(seconds=-1)["id"]
    wait_until(lambda: bench.job(number).get("done") == 1)
    told = json.loads((Path(bench.job(number)["folder"]) / "status.json").read_text())
    bench.daemon.end(9)
    for pid in (told["supervisor"]["pid"], told["pid"]):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: all_ended(told["pid"]))
    bench.daemon.start()
    job = bench.ended(number)
    assert (job["state"], job["benchmarks"]) == ("lost", [])
    assert "Its supervisor was killed" in job["error"]


def test_what_cannot_be_measured_is_refused_before_anything_runs(bench: Bench) -> None:
    jobs = bench.daemon.client.get("/api/v1/benchmarks/jobs").json()["count"]
    assert "There is no launch 'L99'" in bench.refused(404, **{"launch": "L99", "preset": "quick"})
    assert "take a --preset (quick, latency, throughput)" in bench.refused(422)
    assert "There is no preset 'big'" in bench.refused(422, preset="big")
    assert "There is no mapping 'other'; there are mine" in bench.refused(
        422, tool="command", flags=["true"], mapping="other"
    )
    assert "No such program: nosuchprogram" in bench.refused(422, tool="command", flags=["nosuchprogram"])
    assert "guidellm is not installed" in bench.refused(422, tool="guidellm", preset="quick")
    told = bench.daemon.client.post("/api/v1/launches", json={"start": False, "port": 1, "state": "ready"}).json()
    assert "is a record of a launch" in bench.refused(409, **{"launch": told["id"], "preset": "quick"})
    assert bench.daemon.client.get("/api/v1/benchmarks/jobs").json()["count"] == jobs


@pytest.mark.slow
def test_a_server_that_ends_meanwhile_ends_the_run(bench: Bench) -> None:
    """The last test: its server is gone afterwards."""
    number = bench.run(seconds=-1)["id"]
    wait_until(lambda: bench.job(number).get("done") == 1)
    bench.daemon.client.post(f"/api/v1/launches/{bench.launch}/stop", json={"grace_s": 1, "wait_s": 20})
    job = bench.ended(number)
    assert job["state"] == "failed"
    assert f"{bench.launch} ended" in job["error"]
    assert f"{bench.launch} has ended" in bench.refused(409, preset="quick")


def test_a_result_that_was_measured_here_is_not_stored_again_by_an_import(bench: Bench) -> None:
    job = bench.ended(bench.run(repeat=2, config={"steps": 3}, workload={"load": "again"})["id"])
    client = bench.daemon.client
    for name in job["benchmarks"]:
        file = client.get(f"/api/v1/benchmarks/{name}/original").raise_for_status().content
        told = {"name": "result.json", "mapping": "mine"}
        answer = client.post("/api/v1/benchmarks/import", content=file, params=told).raise_for_status().json()
        assert (answer["stored"], answer["known"]) == (0, 1), answer
