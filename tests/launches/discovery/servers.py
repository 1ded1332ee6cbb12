"""Real child processes that look like servers: `python -m sglang.launch_server` with its log, port and ranks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.daemons import Daemon
from tests.helpers import PATIENCE_S, wait_until
from tests.launches.fakes import gone

# The replay of a start under the words of the real one, with ranks that have given themselves titles.
_SERVER = """
import os, subprocess, sys
from sitrepd.demo.replay import main
ranks = [
    subprocess.Popen([f"sglang::scheduler_TP{n}", "-ISc", os.environ.get("FAKE_RANK", "import time; time.sleep(300)")],
                     executable=sys.executable)
    for n in range(int(os.environ.get("FAKE_RANKS", "0")))
]
if os.environ.get("FAKE_UID"):
    import encodings.idna  # its file may be closed to that user
    os.setuid(int(os.environ["FAKE_UID"]))
if os.environ.get("FAKE_DIE"):
    os.kill(os.getpid(), 9)
code = main(["--duration", os.environ.get("FAKE_S", "0.6"), *os.environ.get("FAKE_FLAGS", "").split(),
             "-m", "sglang.launch_server", *sys.argv[1:]])
for rank in ranks:
    rank.kill()
sys.exit(code)
"""


class Servers:
    """Starts servers as people do, in a folder of its own; all that it started is killed at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[subprocess.Popen[bytes]] = []
        package = folder / "packages" / "sglang"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("")
        (package / "launch_server.py").write_text(_SERVER)

    def env(self, **more: str) -> dict[str, str]:
        return os.environ | {"PYTHONPATH": str(self.folder / "packages"), "FAKE_DAY": self.folder.name} | more

    def argv(self, port: int, *more: str) -> list[str]:
        words = [sys.executable, "-m", "sglang.launch_server", "--model-path", "/models/kimi"]
        return [*words, "--port", str(port), *more]

    def start(self, argv: Sequence[str], *, env: dict[str, str] | None = None, **more: Any) -> subprocess.Popen[bytes]:
        told = {"cwd": self.folder, "stdin": subprocess.DEVNULL, "start_new_session": True} | more
        process = subprocess.Popen(argv, env=self.env(**(env or {})), **told)
        self.started.append(process)
        return process

    def shell(self, text: str, **more: Any) -> subprocess.Popen[bytes]:
        """By `bash -c`, as an agent does it."""
        return self.start(["bash", "-c", text], **more)

    def pids(self) -> list[int]:
        """All living processes that were started from here, found by their environment or their session."""
        sessions = {process.pid for process in self.started}
        pids = map(int, filter(str.isdigit, os.listdir("/proc")))
        return [pid for pid in pids if self._is_mine(pid, sessions) and not gone(pid)]

    def _is_mine(self, pid: int, sessions: set[int]) -> bool:
        with suppress(OSError):
            if os.getsid(pid) in sessions:
                return True
            mark = f"FAKE_DAY={self.folder.name}\0".encode()
            return pid != os.getpid() and mark in Path(f"/proc/{pid}/environ").read_bytes()
        return False

    def main(self) -> int:
        """The pid of the server that was started last, once it runs."""
        return wait_until(self._find_main)

    def _find_main(self) -> int | None:
        for pid in self.pids():
            with suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if words[1:3] == [b"-m", b"sglang.launch_server"]:
                    return pid
        return None

    def end(self) -> None:
        deadline = time.monotonic() + 10
        while (left := self.pids()) and time.monotonic() < deadline:
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for process in self.started:
                process.poll()
            time.sleep(0.02)
        for process in self.started:
            process.wait(PATIENCE_S)
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()


@contextmanager
def watching(servers: Servers, name: str = "store", **settings: Any) -> Iterator[Daemon]:
    """A daemon that follows what is started in the servers' folder, and leaves it alone at the end."""
    told = {"adopt": "true", "adopt_below": servers.folder, "discover_s": 0.3} | settings
    daemon = Daemon(servers.folder / name, **told).start()
    try:
        yield daemon
    finally:
        if daemon.process is not None:
            daemon.end()


def launches(daemon: Daemon) -> list[dict[str, Any]]:
    """All launches, the first one first."""
    found: list[dict[str, Any]] = daemon.client.get("/api/v1/launches").json()["data"]
    return found[::-1]


def of_pid(daemon: Daemon, pid: int) -> dict[str, Any] | None:
    return next((launch for launch in launches(daemon) if launch.get("pid") == pid), None)


def until_followed(daemon: Daemon, pid: int, *states: str) -> dict[str, Any]:
    """The launch of that process, once it is one, and in one of the states if any are given."""

    def reached() -> dict[str, Any] | None:
        launch = of_pid(daemon, pid)
        return launch if launch and (not states or launch["state"] in states) else None

    found = wait_until(reached, interval_s=0.05)
    assert found is not None
    return found


def servers_now(daemon: Daemon) -> dict[str, Any]:
    """`GET /servers`."""
    told: dict[str, Any] = daemon.client.get("/api/v1/servers").json()
    return told
