"""What the tests of repeated launches share."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Any

from tests.daemons import Daemon
from tests.helpers import wait_until

REPLAY = f"{shlex.quote(sys.executable)} -m sitrepd.demo.replay"
SECRET = "sk-live-9f8e7d6c5b4a39281706f5e4d3c2b1a0"


def line(port: int, log: Path, seconds: float = 1, more: str = "", model: str = "/models/kimi") -> str:
    """A pasted start of a replay."""
    return (
        f"NCCL_PROTO=LL nohup {REPLAY} --duration {seconds} -m sglang.launch_server --model-path {model} \\\n"
        f"  --tp-size 8 --port {port} --speculative-num-draft-tokens 6 --speculative-num-steps 3 {more} > {log} 2>&1 &"
    )


def start(daemon: Daemon, **body: Any) -> dict[str, Any]:
    answer = daemon.client.post("/api/v1/launches", json=body)
    assert answer.status_code == 201, answer.text
    launch: dict[str, Any] = answer.json()
    return launch


def get(daemon: Daemon, path: str, **query: Any) -> Any:
    answer = daemon.client.get(f"/api/v1/{path}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def until(daemon: Daemon, launch: str, *states: str) -> dict[str, Any]:
    def reached() -> dict[str, Any] | None:
        found: dict[str, Any] = get(daemon, f"launches/{launch}")
        return found if found["state"] in states else None

    found = wait_until(reached, interval_s=0.05)
    assert found is not None
    return found


def caller_env(**more: str) -> dict[str, str]:
    """The environment of whoever asks, as the command line sends it."""
    return {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **more}
