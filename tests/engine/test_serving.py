"""A real SGLang from its start to its end, through the command line."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.engine.models import make_model
from tests.engine.servers import Room, generate, kill, rank, tree
from tests.helpers import all_ended, free_port, lives, wait_until

PHASES = ["starting", "dist_init", "load_weights", "kv_cache", "http_start", "warmup"]


@pytest.fixture(scope="module")
def model(room: Room) -> Path:
    return make_model(room.folder / "model")


@pytest.fixture(scope="module")
def first(room: Room, model: Path) -> Iterator[dict[str, Any]]:
    """A server that is ready, and the moments of its start."""
    port, log = free_port(), room.folder / "first.log"
    launch = room.launch("--name", "first", "--log", str(log), "--", *room.command(model, port))
    code, moments = room.watch(launch["id"])
    assert code == 0, log.read_text()[-3000:]
    yield {**launch, "moments": moments, "log": log}
    if lives(launch["pid"]):
        room.sitrep("stop", launch["id"])


def test_a_start_is_followed_phase_by_phase(room: Room, first: dict[str, Any], model: Path) -> None:
    states = list(dict.fromkeys(one["state"] for one in first["moments"]))
    assert states[0] == "starting"
    assert states[-1] == "ready"
    fact = room.show(first["id"])
    assert [phase["name"] for phase in fact["phases"]] == PHASES
    assert all(phase["ended_at"] >= phase["started_at"] for phase in fact["phases"])
    weights = fact["phases"][PHASES.index("load_weights")]
    assert (weights["done"], weights["total"], weights["unit"]) == (4, 4, "shards")
    assert (fact["state"], fact["watched"], fact["engine"], fact["model"]) == ("ready", True, "sglang", str(model))
    assert fact["settings"]["max_total_tokens"] == 8192
    assert {size["value"] for size in fact["sizes"] if size["name"] == "kv_tokens"} == {8192}


def test_the_start_was_not_disturbed(first: dict[str, Any]) -> None:
    """Each `GET /health` would have made the engine generate a token."""
    assert "GET /health" not in first["log"].read_text()


def test_a_completion_becomes_throughput(room: Room, first: dict[str, Any]) -> None:
    assert len(generate(first["port"], 200)) == 200

    def figures() -> dict[str, Any] | None:
        told: dict[str, Any] | None = room.show(first["id"]).get("throughput")
        return told if told and told.get("gen_tok_s") else None

    found = wait_until(figures, 20, 0.5)
    assert found is not None
    assert found["gen_tok_s"] > 0


def test_a_taken_port_is_refused_before_the_start(room: Room, first: dict[str, Any], model: Path) -> None:
    refused = room.sitrep("launch", "--", *room.command(model, first["port"])).refused()
    assert f"Port {first['port']} is taken by pid {first['pid']}" in refused


def test_a_false_ready_line_is_not_believed(room: Room, first: dict[str, Any], model: Path) -> None:
    """Forced onto a taken port, SGLang prints that it is ready (the other server answered it), and hangs."""
    log = room.folder / "forced.log"
    launch = room.launch("--force", "--log", str(log), "--", *room.command(model, first["port"]))
    code, moments = room.watch(launch["id"])
    assert code == 4
    assert "ready" not in {one["state"] for one in moments}
    assert room.diagnosed(launch["id"]) == "port_in_use"
    assert str(first["port"]) in room.show(launch["id"])["failure"]
    wait_until(lambda: "ready to roll" in log.read_text() or not lives(launch["pid"]), 60, 0.1)
    assert room.show(launch["id"])["state"] == "failed"
    assert room.show(first["id"])["state"] == "ready"
    if lives(launch["pid"]):
        room.sitrep("stop", launch["id"], "--grace", "5").ok()
    wait_until(lambda: not tree(launch["pid"]), 60, 0.1)


def test_benchmarks_of_two_settings_are_compared(room: Room, first: dict[str, Any], model: Path) -> None:
    results = room.folder / "first.jsonl"
    done = room.benchmark(first["port"], results)
    assert done.code == 0, done.out + done.err
    taken = room.sitrep("bench", "import", "--baseline", "--json", str(results)).json
    assert [run["launch"] for run in taken["data"]] == [first["id"]]
    port = free_port()
    second = room.launch("--name", "no prefix cache", *_shell_line(room, model, port, "--disable-radix-cache"))
    assert room.watch(second["id"])[0] == 0
    assert room.show(second["id"])["settings"]["disable_radix_cache"] is True
    results = room.folder / "second.jsonl"
    done = room.benchmark(port, results)
    assert done.code == 0, done.out + done.err
    taken = room.sitrep("bench", "import", "--json", str(results)).json
    assert [run["launch"] for run in taken["data"]] == [second["id"]]
    rows = room.daemon.client.get("/api/v1/sessions/current/comparison").json()["rows"]
    assert {row["launches"][0]: row["baseline"] for row in rows} == {first["id"]: True, second["id"]: False}
    assert all(row["comparable"] and row["value"] > 0 for row in rows)
    assert next(row for row in rows if not row["baseline"])["difference"].endswith("%")
    _a_rank_is_killed(room, second)


def _shell_line(room: Room, model: Path, port: int, *flags: str) -> list[str]:
    return [f"nohup {shlex.join(room.command(model, port, *flags))} > {port}.log 2>&1 &"]


def _a_rank_is_killed(room: Room, launch: dict[str, Any]) -> None:
    """While it serves, as the kernel does where memory is short."""
    pids = {one.pid for one in tree(launch["pid"])}
    kill(rank(launch["pid"]).pid)
    ended = room.ended(launch["id"])
    assert ended["state"] == "failed"
    assert room.diagnosed(launch["id"])
    assert room.finding(launch["id"])["status"] == "open"
    wait_until(lambda: all_ended(*pids), 60, 0.1)


def test_a_server_is_stopped(room: Room, first: dict[str, Any]) -> None:
    pids = {one.pid for one in tree(first["pid"])}
    assert len(pids) >= 3
    assert "was stopped" in room.sitrep("stop", first["id"]).ok().out
    fact = room.show(first["id"])
    assert fact["state"] == "exited"
    assert "failure" not in fact
    assert room.categories(first["id"]) == []
    assert all_ended(*pids)


def test_a_killed_server_is_told_as_killed(room: Room, model: Path) -> None:
    port = free_port()
    launch = room.launch("--name", "killed", "--", *room.command(model, port))
    assert room.watch(launch["id"])[0] == 0
    pids = {one.pid for one in tree(launch["pid"])}
    kill(launch["pid"])
    ended = room.ended(launch["id"])
    assert (ended["state"], ended["exit_signal"]) == ("failed", 9)
    assert "signal 9" in ended["failure"] or "SIGKILL" in ended["failure"]
    wait_until(lambda: all_ended(*pids), 60, 0.1)
