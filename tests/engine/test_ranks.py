"""A real SGLang over two ranks: followed rank by rank, and what is said when one of them fails or is killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.engine.models import make_model
from tests.engine.servers import Room, generate, kill, ranks, tree
from tests.helpers import all_ended, free_port, lives, wait_until

# One core for each rank, and no NCCL: without a GPU the ranks speak through Gloo. Nothing is compiled.
_AROUND = {
    "SGLANG_CPU_OMP_THREADS_BIND": "0|0", "SGLANG_NCCL_SO_PATH": "/nonexistent/libnccl.so", "TORCHDYNAMO_DISABLE": "1",
}  # fmt: skip
_PHASES = ["starting", "dist_init", "load_weights", "kv_cache", "http_start", "warmup"]


def start(room: Room, model: Path, name: str) -> dict[str, Any]:
    log = room.folder / f"{name}.log"
    around = [word for item in _AROUND.items() for word in ("--env", "=".join(item))]
    command = room.command(model, free_port(), "--tp-size", "2")
    return {**room.launch("--name", name, "--log", str(log), *around, "--", *command), "log": log}


def test_two_ranks_are_followed_and_one_is_killed(room: Room) -> None:
    model = make_model(room.folder / "pair", num_attention_heads=4, num_key_value_heads=2)
    launch = start(room, model, "pair")
    code, _ = room.watch(launch["id"])
    assert code == 0, launch["log"].read_text()[-3000:]
    fact = room.show(launch["id"])
    assert [phase["name"] for phase in fact["phases"]] == _PHASES
    weights = fact["phases"][_PHASES.index("load_weights")]
    assert (weights["done"], weights["total"], weights["unit"]) == (4, 4, "shards")
    tokens = {size["rank"]: size["value"] for size in fact["sizes"] if size["name"] == "kv_tokens"}
    assert tokens == {"TP0": 8192, "TP1": 8192}
    assert fact["settings"]["tp_size"] == 2
    _each_rank_is_shown(room, launch)
    assert len(generate(launch["port"], 50)) == 50
    _one_is_killed(room, launch)


def _each_rank_is_shown(room: Room, launch: dict[str, Any]) -> None:
    servers = room.daemon.client.get("/api/v1/servers").json()["servers"]
    (server,) = [one for one in servers if one["pid"] == launch["pid"]]
    shown = {one["title"]: one["pid"] for one in server["ranks"]}
    found = ranks(launch["pid"])
    assert set(found) == {"sglang::scheduler_TP0", "sglang::scheduler_TP1"}
    assert {title: shown[title] for title in found} == found


def _one_is_killed(room: Room, launch: dict[str, Any]) -> None:
    pids = [one.pid for one in tree(launch["pid"])]
    kill(ranks(launch["pid"])["sglang::scheduler_TP1"])
    ended = room.ended(launch["id"])
    assert ended["state"] == "failed"
    assert room.diagnosed(launch["id"]) == "host_oom_killed"
    title = room.finding(launch["id"])["title"]
    assert "TP1 ended without a word" in title or "scheduler_1" in title
    wait_until(lambda: all_ended(*pids), 60, 0.1)


def test_the_rank_that_failed_is_named(room: Room) -> None:
    """With one key-value head rank 1 reads beyond the end of a tensor, where rank 0 goes on."""
    launch = start(room, make_model(room.folder / "odd", num_key_value_heads=1), "odd")
    code, moments = room.watch(launch["id"])
    assert (code, moments[-1]["state"]) == (4, "failed")
    assert room.diagnosed(launch["id"]) == "scheduler_exception"
    finding = room.finding(launch["id"])
    assert finding["title"] == "The model does not divide between so many ranks (tensor-parallel size 2) [TP1]"
    assert "exceeds dimension size (64)" in finding["detail"]
    assert not lives(launch["pid"])
