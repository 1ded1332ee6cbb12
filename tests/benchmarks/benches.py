"""A daemon with a server that is ready, which benchmarks are run against."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.servers import client_words, server_words
from tests.daemons import Daemon
from tests.helpers import free_port, wait_until

MAPPED = {"tool": "command", "mapping": "mine"}


@dataclass
class Bench:
    """A daemon with a server that is ready, and the file of a client."""

    daemon: Daemon
    launch: str
    client: Path
    folder: Path

    def run(self, seconds: float = 0, **more: Any) -> dict[str, Any]:
        body = {
            "launch": self.launch, "flags": client_words(self.client, seconds), **MAPPED, **more,
        }  # fmt: skip
        answer = self.daemon.client.post("/api/v1/benchmarks/run", json=body)
        assert answer.status_code == 202, answer.text
        return dict(answer.json())

    def job(self, number: int) -> dict[str, Any]:
        return dict(self.daemon.client.get(f"/api/v1/benchmarks/jobs/{number}").json())

    def ended(self, number: int) -> dict[str, Any]:
        wait_until(lambda: self.job(number)["state"] not in ("queued", "warming", "running"))
        return self.job(number)

    def benchmark(self, name: str) -> dict[str, Any]:
        return dict(self.daemon.client.get(f"/api/v1/benchmarks/{name}").json())

    def refused(self, status: int, **body: Any) -> str:
        answer = self.daemon.client.post("/api/v1/benchmarks/run", json={"launch": self.launch, **body})
        assert answer.status_code == status, answer.text
        return str(answer.json()["detail"])


def launch(daemon: Daemon, server: Path, name: str, port: int | None = None, *more: str) -> str:
    """A launch of that server; it is ready once it says so."""
    port = port or free_port()
    body = {
        "argv": [*server_words(server, port), *more],
        "port": port,
        "cwd": str(server.parent),
        "ready_pattern": "fired up",
        "name": name,
    }
    return str(daemon.client.post("/api/v1/launches", json=body).json()["id"])


def ready(daemon: Daemon, name: str) -> str:
    wait_until(lambda: daemon.client.get(f"/api/v1/launches/{name}").json()["state"] == "ready")
    return name


def go(job: dict[str, Any]) -> None:
    """Let the client end that waits for it."""
    (Path(job["folder"]) / "result.json.go").touch()
