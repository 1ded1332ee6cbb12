"""The diagnosis of logs that were recorded from real servers."""

from __future__ import annotations

import json

import pytest
from tests.launches.reading import LOGS

from sitrepd.launches.diagnosis import diagnose

EXPECTED = {
    "cpu-0.5.23-api-key": ("exited", None, None),
    "cpu-0.5.23-corrupt-shard": ("failed", "load_weights", "weights_corrupt"),
    "cpu-0.5.23-eagle3-fail": ("failed", "kv_cache", "driver"),
    "cpu-0.5.23-model-path-missing": ("failed", "starting", "model_not_found"),
    "cpu-0.5.23-port-in-use": ("failed", "http_start", "port_in_use"),
    "cpu-0.5.23-success": ("exited", None, None),
    "cpu-0.5.23-tp2-kv-heads": ("failed", "load_weights", "scheduler_exception"),
    "cpu-0.5.23-tp2-no-cores": ("failed", "dist_init", "scheduler_exception"),
    "cpu-0.5.23-tp2-no-interface": ("failed", "dist_init", "nccl_error"),
    "cpu-0.5.23-tp2-port-of-ranks": ("failed", "dist_init", "port_in_use"),
    "cpu-0.5.23-tp2-rank-cannot-read": ("failed", "load_weights", "weights_corrupt"),
    "cpu-0.5.23-tp2-rank-killed-loading": ("failed", "dist_init", "host_oom_killed"),
    "cpu-0.5.23-tp2-rank-killed-serving": ("failed", None, "host_oom_killed"),
    "cpu-0.5.23-tp2-rank-raises-serving": ("failed", "warmup", "cuda_illegal_memory"),
    "cpu-0.5.23-tp2-success": ("exited", None, None),
    "cpu-0.5.23-tp2-ranks": ("failed", "dist_init", "scheduler_exception"),
    "cpu-0.5.23-tp4-heads": ("failed", "load_weights", "scheduler_exception"),
    "h200-0.5.16-base-cold-jit": ("exited", None, None),
    "h200-0.5.16-eagle3-s2": ("exited", None, None),
    "h200-0.5.16-eagle3-s3": ("exited", None, None),
    "h200-0.5.16-fail-context-len": ("failed", "starting", "context_length"),
    "h200-0.5.16-fail-draft-hidden": ("failed", "load_draft_weights", "draft_model"),
    "h200-0.5.16-fail-gpu-occupied": ("failed", "load_weights", "gpu_occupied"),
    "h200-0.5.16-fail-memfraction": ("failed", "kv_cache", "memory_kv_pool"),
    "h200-0.5.16-fail-missing-shard": ("capturing", "capture_prefill", None),
    "h200-0.5.16-fail-tp8-one-gpu": ("failed", "dist_init", "gpu_count"),
    "h200-0.5.16-fail-truncated-shard": ("failed", "load_weights", "weights_corrupt"),
}


def test_every_recording_is_expected() -> None:
    assert {path.stem for path in LOGS.glob("*-0.5.*.log")} <= set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_recording(name: str) -> None:
    told = diagnose(LOGS / f"{name}.log")
    assert (told.state, told.phase, told.category) == EXPECTED[name]
    assert json.loads(json.dumps(told.to_json())).keys() == {
        "state", "phase", "category", "summary", "cause", "fix", "evidence",
    }  # fmt: skip


def test_fixes_carry_the_values_of_the_launch() -> None:
    fraction = diagnose(LOGS / "h200-0.5.16-fail-memfraction.log")
    assert fraction.fix == "--mem-fraction-static 0.04 or more (now 0.01; the least that works is 0.028)."
    occupied = diagnose(LOGS / "h200-0.5.16-fail-gpu-occupied.log")
    assert "kill 1563" in str(occupied.fix)
    assert "process 1563 136.5 GiB" in str(occupied.cause)
    context = diagnose(LOGS / "h200-0.5.16-fail-context-len.log")
    assert str(context.fix).startswith("--context-length 32768 or less")
    draft = diagnose(LOGS / "h200-0.5.16-fail-draft-hidden.log")
    assert draft.summary == "The draft model /models/bad-draft does not fit the target /models/target"
    port = diagnose(LOGS / "cpu-0.5.23-port-in-use.log")
    assert "--port 31778" in str(port.fix)
    ranks = diagnose(LOGS / "h200-0.5.16-fail-tp8-one-gpu.log")
    assert "--tp-size 8" in str(ranks.cause)


@pytest.mark.parametrize(
    ("name", "summary"),
    [
        ("kv-heads", "The model does not divide between so many ranks (tensor-parallel size 2) [TP1]"),
        ("no-cores", "More ranks than NUMA nodes, and no cores are set for each of them [TP1]"),
        ("no-interface", "The ranks find no network interface ib_nonsense0 on this machine [TP0]"),
        ("port-of-ranks", "Port 53107 by which the ranks find each other is already in use [TP0]"),
        ("rank-cannot-read", "A file of the weights cannot be read: Input/output error [TP1]"),
        ("rank-killed-loading", "A process of the server was killed from outside (SIGKILL): the scheduler of rank 1"),
        ("rank-raises-serving", "A GPU kernel accessed memory that it must not [TP1]"),
        (
            "rank-killed-serving",
            "A rank of the server was killed from outside (SIGKILL): TP1 ended without a word, and TP0 lost its "
            "connection to it",
        ),
    ],
)
def test_the_rank_that_failed_is_named(name: str, summary: str) -> None:
    assert diagnose(LOGS / f"cpu-0.5.23-tp2-{name}.log").summary == summary


def test_of_three_ranks_that_fail_alike_the_first_is_named() -> None:
    told = diagnose(LOGS / "cpu-0.5.23-tp4-heads.log")
    assert told.summary == "The model does not divide between so many ranks (tensor-parallel size 4) [TP3]"
    assert "start out of range" in str(told.cause)


def test_the_process_is_named_that_the_launcher_missed() -> None:
    lines = [
        *(LOGS / "cpu-0.5.23-tp2-success.log").read_text().split("SIGTERM received")[0].splitlines()[:-1],
        "[2026-12-01 16:31:59] Subprocess scheduler_1 (pid=12521) crashed with exit code -9. Triggering SIGQUIT for "
        "cleanup...",
        "[2026-12-01 16:31:59] SIGQUIT received. signum=None, frame=None. It usually means one child failed.",
    ]
    assert diagnose(lines).summary == "A process of the server was killed from outside: scheduler_1"


def test_fixes_name_the_port_of_the_ranks_and_the_file() -> None:
    port = diagnose(LOGS / "cpu-0.5.23-tp2-port-of-ranks.log")
    assert "--nccl-port 53108" in str(port.fix)
    assert "serves nobody" not in str(port.cause)
    shard = diagnose(LOGS / "cpu-0.5.23-tp2-rank-cannot-read.log")
    assert "cat /models/tiny/model-00003-of-00004.safetensors > /dev/null" in str(shard.fix)


def test_silence_counts_only_where_the_log_is_whole() -> None:
    """In an excerpt the rank's own words may have been left out."""
    lines = (LOGS / "cpu-0.5.23-tp2-rank-killed-serving.log").read_text().splitlines()
    fell = next(place for place, line in enumerate(lines) if "SIGQUIT received" in line)
    begin = next(place for place, line in enumerate(lines) if "Init parallel begin" in line)
    for part in (lines[begin:], lines[:fell], [line for line in lines if " TP1]" not in line]):
        assert diagnose(part).category == "nccl_error"
