"""Runs the command line as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.helpers import PATIENCE_S, lives, wait_until


@dataclass
class Done:
    """A call that has ended."""

    code: int
    out: str
    err: str

    def ok(self) -> Done:
        assert self.code == 0, f"exit status {self.code}\n{self.out}{self.err}"
        return self

    def refused(self, code: int = 1) -> str:
        assert self.code == code, f"exit status {self.code}\n{self.out}{self.err}"
        assert "Traceback" not in self.err
        return self.err

    @property
    def json(self) -> Any:
        self.ok()
        return json.loads(self.out)


_started: list[subprocess.Popen[str]] = []


def end_started() -> None:
    """Ends what a test started by `Sitrep.start`, so that one that fails leaves nothing to the next."""
    while _started:
        process = _started.pop()
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


class Sitrep:
    """`sitrep(…)` runs one command on a store."""

    def __init__(self, store: Path, cwd: Path) -> None:
        self.store = store
        self.cwd = cwd

    def environment(self, **told: str) -> dict[str, str]:
        plain = {name: value for name, value in os.environ.items() if not name.startswith("SITREP_")}
        return plain | {"SITREP_DATA_DIR": str(self.store), "SITREP_ADOPT": "false", "NO_COLOR": "1"} | told

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "sitrepd.cli", *words]

    def __call__(
        self, *words: str, stdin: str | bytes | None = None, cwd: Path | None = None, env: dict[str, str] | None = None
    ) -> Done:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        done = subprocess.run(
            self.command(*words), input=data, stdin=subprocess.DEVNULL if data is None else None, capture_output=True,
            cwd=cwd or self.cwd, env=self.environment(**(env or {})), timeout=PATIENCE_S,
        )  # fmt: skip
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def start(self, *words: str, **popen: Any) -> subprocess.Popen[str]:
        """A command that goes on, until the test ends at the latest."""
        popen = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "text": True,
        } | popen
        process = subprocess.Popen(self.command(*words), cwd=self.cwd, env=self.environment(), **popen)
        _started.append(process)
        return process

    def daemon_pid(self) -> int | None:
        try:
            return int(json.loads((self.store / "daemon.json").read_text())["pid"])
        except (OSError, ValueError):
            return None

    def end_daemon(self) -> None:
        pid = self.daemon_pid()
        if pid is not None:
            os.kill(pid, signal.SIGTERM)
            wait_until(lambda: not lives(pid))
