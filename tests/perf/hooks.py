"""What a hook costs a client: from the start of the script to its end, with the daemon up, down, and not answering."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
from tests.perf.daemon import serving
from tests.perf.measure import Figure, benchmark, median, percentile

_SCRIPT = Path(__file__).parents[2] / "deploy" / "agents" / "sitrep-hook"
_REFERENCE = Path(__file__).parents[1] / "data" / "reference-session.jsonl"
_ROUNDS = 40
_LIMIT_MS = 50.0
_WORST_MS = 1000.0
_EVENTS: dict[str, dict[str, Any]] = {
    "SessionStart": {"source": "compact"},
    "UserPromptSubmit": {"prompt": "Try 3 steps. Never restart the box."},
    "PreCompact": {"trigger": "auto", "custom_instructions": None},
    "Stop": {"last_assistant_message": "I go on from C1.", "background_tasks": []},
    "PostToolUse": {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_response": {"stdout": "x"}},
}


def call(store: Path, event: str, told: dict[str, Any]) -> float:
    """Milliseconds of one call."""
    body = json.dumps({"session_id": "perf", "cwd": str(store), "hook_event_name": event, **told}).encode()
    env = {"PATH": os.environ["PATH"], "HOME": str(store), "SITREP_DATA_DIR": str(store)}
    began = time.perf_counter()
    subprocess.run([_SCRIPT, "claude-code", event], input=body, env=env, stdout=subprocess.PIPE, check=True)
    return (time.perf_counter() - began) * 1000


def _curl(store: Path) -> float:
    """curl alone, asking the daemon whether it lives."""
    command = ["curl", "-sf", "--unix-socket", str(store / "sitrep.sock"), "http://localhost/api/v1/health"]
    began = time.perf_counter()
    subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return (time.perf_counter() - began) * 1000


@benchmark("hook_ms", "hook_session_start_ms", "hook_down_ms", "hook_worst_ms")
def hooks() -> Iterator[Figure]:
    """Each event in turn on the reference session, beside curl alone; a daemon that hangs is the worst."""
    times: dict[str, list[float]] = {event: [] for event in _EVENTS}
    alone: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        store = Path(name) / "store"
        with serving(store) as (_seconds, _process, port):
            token = (store / "token").read_text().strip()
            with httpx2.Client(headers={"Authorization": f"Bearer {token}"}, trust_env=False, timeout=60) as client:
                url = f"http://127.0.0.1:{port}/api/v1/import"
                client.post(url, content=_REFERENCE.read_bytes()).raise_for_status()
            for number in range(_ROUNDS):
                for event, told in _EVENTS.items():
                    times[event].append(
                        call(store, event, told | {"prompt_id": str(number), "tool_use_id": str(number)})
                    )
                alone.append(_curl(store))
        down = [call(store, event, told) for event, told in _EVENTS.items() for _ in range(4)]
        with socket.socket(socket.AF_UNIX) as hanging:
            hanging.bind(str(store / "sitrep.sock"))
            hanging.listen()
            hung = [call(store, event, told) for event, told in _EVENTS.items()]
    every = [one for found in times.values() for one in found]
    told = ", ".join(f"{event} {median(found):.0f}" for event, found in times.items())
    peer = f"curl alone {median(alone):.1f} ms"
    note = f"medians: {told}; p95 {percentile(every, 0.95):.0f}"
    yield Figure("hook_ms", median(every), "ms", peer, median(every) / median(alone), _LIMIT_MS, note)
    start = median(times["SessionStart"])
    yield Figure("hook_session_start_ms", start, "ms", peer, start / median(alone), _LIMIT_MS)
    yield Figure("hook_down_ms", median(down), "ms", limit=_LIMIT_MS, note="no daemon")
    yield Figure("hook_worst_ms", max(hung), "ms", limit=_WORST_MS, note="a daemon that accepts and never answers")
