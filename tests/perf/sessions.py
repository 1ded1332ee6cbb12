"""A long session, made by code: the size that a checkpoint must still be quick on."""

from __future__ import annotations

import json
from typing import Any

KINDS = ("root_cause", "constraint", "decision", "rejected", "hypothesis", "observation")
STATUSES = ("open", "confirmed", "refuted", "superseded")


def long_session(messages: int, launches: int, benchmarks: int, findings: int) -> bytes:
    """A session file with so many facts of each kind."""
    lines: list[dict[str, Any]] = [
        {"type": "session", "key": "s", "name": "long", "goal": "Find the best configuration."}
    ]
    lines += [{"type": "directive", "text": f"Directive {n}: measure before and after."} for n in range(10)]
    lines += [
        {
            "type": "message",
            "number": n,
            "role": ("user", "assistant")[n % 2],
            "text": f"Message {n}. " + "Some words. " * 20,
        }
        for n in range(messages)
    ]
    lines += [_launch(n) for n in range(launches)]
    lines += [_benchmark(n, launches) for n in range(benchmarks)]
    lines += [_finding(n, benchmarks) for n in range(findings)]
    lines += [
        {"type": "next_step", "text": f"Step {n}", "order": n, "state": ("todo", "done")[n % 2]} for n in range(40)
    ]
    return "\n".join(json.dumps(line) for line in lines).encode()


def _launch(n: int) -> dict[str, Any]:
    command = f"NCCL_ALGO=Ring python -m sglang.launch_server --model-path /m --port 30000 --speculative-num-steps {n % 10} > /logs/{n} 2>&1 &"
    phases = [
        {"name": name, "started_at": "2026-11-01T00:00:00Z", "ended_at": "2026-11-01T00:10:00Z"}
        for name in ("load_weights", "kv_cache")
    ]
    return {
        "type": "launch",
        "key": f"l{n}",
        "engine": "sglang",
        "command": command,
        "state": "exited",
        "model": "/m",
        "phases": phases,
    }


def _benchmark(n: int, launches: int) -> dict[str, Any]:
    metrics = {
        name: {"value": 80 + (n * 7919 % 200) / 10 + place, "unit": unit}
        for place, (name, unit) in enumerate(
            (("output_throughput", "tok/s"), ("median_ttft_ms", "ms"), ("accept_length", "tokens"))
        )
    }
    config = {"speculative_num_steps": n % 10, "mem_fraction_static": 0.8 + n % 5 / 100, "run": n // 50}
    return {
        "type": "benchmark", "key": f"b{n}", "launch": f"l{n % launches}", "baseline": n == 0, "config": config,
        "workload": {"num_prompts": 16}, "metrics": metrics,
    }  # fmt: skip


def _finding(n: int, benchmarks: int) -> dict[str, Any]:
    return {
        "type": "finding", "key": f"f{n}", "kind": KINDS[n % len(KINDS)], "status": STATUSES[n % 7 % 4], "title": f"Finding {n}",
        "detail": "What was seen. " * 8, "reason": "Because it was measured.", "evidence": [f"b{n % benchmarks}"],
    }  # fmt: skip
