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
    "cpu-0.5.23-tp2-ranks": ("failed", "dist_init", "scheduler_exception"),
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
