"""A daemon that is killed again and again, the servers that live beside it, and what it was told."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import httpx2
import psutil
from tests.helpers import PATIENCE_S, wait_until
from tests.launches.fakes import gone

_REPLAY = f"{shlex.quote(sys.executable)} -m sitrepd.demo.replay"
KINDS = ("serves", "fails", "ends", "serves", "signalled", "deaf", "fails")
_FAILURES = ("oom", "draft-shape", "missing-weights")
_DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(900)"


_NURSERY = """
import importlib, os, pkgutil, sys
import sitrepd
from sitrepd.server import serve
from sitrepd.settings import load_settings
for module in pkgutil.walk_packages(sitrepd.__path__, "sitrepd."):
    if not module.name.endswith("__main__") and ".cli" not in module.name:
        importlib.import_module(module.name)
for line in sys.stdin:
    pid = os.fork()
    if not pid:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0), os.dup2(null, 1)
        os._exit(serve(load_settings()))
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


class Daemons:
    """Daemons on one store, one after another, forked from a process that has imported everything once."""

    def __init__(self, folder: Path) -> None:
        self.data_dir = folder / "store"
        self.log = folder / "daemon.log"
        self.pid = 0
        told = {"DATA_DIR": str(self.data_dir), "PORT": "0", "LOG_LEVEL": "error", "ADOPT": "false"}
        env = os.environ | {f"SITREP_{name}": value for name, value in told.items()}
        command = [sys.executable, "-c", _NURSERY]
        with self.log.open("wb") as log:
            self._nursery = subprocess.Popen(
                command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, bufsize=1
            )
        path = str(self.data_dir / "sitrep.sock")
        transport = httpx2.HTTPTransport(uds=path)
        self.client = httpx2.Client(transport=transport, base_url="http://localhost/api/v1", timeout=PATIENCE_S)

    def begin(self) -> None:
        """Does not wait for it, so that it can be killed while it starts."""
        assert self._nursery.stdin is not None
        assert self._nursery.stdout is not None
        self._nursery.stdin.write("one more\n")
        self.pid = int(self._nursery.stdout.readline())

    def listens(self) -> None:
        """The socket of a killed daemon stays behind: only an accepted connection tells that this one serves."""
        wait_until(self._accepts, interval_s=0.005)
        assert self.client.get("/health").status_code == 200

    def _accepts(self) -> bool:
        assert not gone(self.pid), f"the daemon ended by itself: {self.log.read_text()}"
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self.data_dir / "sitrep.sock")) == 0

    def end(self, signum: int) -> None:
        os.kill(self.pid, signum)

    def buried(self, code: int) -> None:
        assert self._nursery.stdout is not None
        assert int(self._nursery.stdout.readline()) == code
        self.pid = 0

    def close(self) -> None:
        if self.pid:
            self.end(signal.SIGKILL)
        self.client.close()
        self._nursery.communicate()


@dataclass
class Told:
    """What was sent, and what of it the daemon acknowledged."""

    sent: set[str] = field(default_factory=set)
    acknowledged: dict[str, str] = field(default_factory=dict)


@dataclass
class Life:
    """Everything that one test tells and starts; names say what is to become of a launch."""

    daemon: Daemons
    folder: Path
    random: Random
    messages: Told = field(default_factory=Told)
    findings: Told = field(default_factory=Told)
    launches: Told = field(default_factory=Told)
    stopped: set[str] = field(default_factory=set)
    serving: list[str] = field(default_factory=list)

    def tell(self) -> None:
        """One fact more; raises TransportError when the daemon dies meanwhile."""
        if self.random.random() < 0.8:
            name = str(len(self.messages.sent) + 1)
            self._post(
                self.messages, name, "/messages", {"number": int(name), "role": "user", "text": f"message {name}"}
            )
        else:
            name = f"finding {len(self.findings.sent) + 1}"
            self._post(self.findings, name, "/findings", {"kind": "observation", "title": name})

    def launch(self) -> None:
        """One server more, or the end of the oldest that serves."""
        if len(self.serving) >= 3:
            self.stop(self.serving[0])
            return
        number = len(self.launches.sent) + 1
        kind = KINDS[number % len(KINDS)]
        name, body = self._body(kind, number)
        self._post(self.launches, name, "/launches", {"name": name, "cwd": str(self.folder), **body})
        if kind in ("serves", "deaf"):
            self.serving.append(name)

    def stop(self, name: str) -> None:
        self.serving.remove(name)
        number = self.launches.acknowledged.get(name)
        if number is None:
            return
        answer = self.daemon.client.post(f"/launches/{number}/stop", json={"grace_s": 1.5})
        assert answer.status_code == 202, answer.text
        # Only now: a daemon that was killed before it answered may not have heard of it.
        self.stopped.add(name)

    def _body(self, kind: str, number: int) -> tuple[str, dict[str, Any]]:
        """A server of that kind, and the name that tells its kind and how it is to end."""
        pause = round(self.random.uniform(0.05, 3), 2)
        if kind in ("serves", "fails"):
            how = f"--fail {self.random.choice(_FAILURES)}" if kind == "fails" else ""
            flags = f"--port {20000 + number} --duration {pause + 0.5} --tp-size 2 {how}"
            return f"{kind} {number}", {
                "command": f"nohup {_REPLAY} {flags} -m sglang.launch_server > {number}.log 2>&1 &"
            }
        if kind == "deaf":
            return f"deaf {number}", {"argv": [sys.executable, "-c", _DEAF], "ready_pattern": "up"}
        code = self.random.randrange(1, 100) if kind == "ends" else signal.SIGUSR1.value
        end = f"sys.exit({code})" if kind == "ends" else f"os.kill(os.getpid(), {code})"
        script = f"import os, sys, time; print('{'x' * 99}'); time.sleep({pause}); {end}"
        return f"{kind} {number} {code}", {"argv": [sys.executable, "-c", script]}

    def _post(self, told: Told, name: str, path: str, body: dict[str, Any]) -> None:
        told.sent.add(name)
        answer = self.daemon.client.post(path, json=body)
        assert answer.status_code == 201, answer.text
        told.acknowledged[name] = answer.json()["id"]

    def one_daemon(self, *, while_it_starts: bool) -> None:
        """A daemon from its start to its death at some moment."""
        self.daemon.begin()
        if while_it_starts:
            time.sleep(self.random.uniform(0, 0.6))  # the moment itself is what is tried
            self.daemon.end(signal.SIGKILL)
        else:
            self.daemon.listens()
            self._until_killed(self.random.uniform(0, 0.8))
        self.daemon.buried(-signal.SIGKILL)

    def _until_killed(self, after_s: float) -> None:
        self.tell()
        dice = self.random.random()
        if dice < 0.35:
            self.launch()  # to its end: where all is slow, hardly one would come to it before the daemon is killed
        timer = threading.Timer(after_s, self.daemon.end, [signal.SIGKILL])
        launch_at = time.monotonic() + self.random.uniform(0, after_s) if 0.35 <= dice < 0.7 else None
        timer.start()
        try:
            while True:
                if launch_at is not None and time.monotonic() >= launch_at:
                    launch_at = None
                    self.launch()
                self.tell()
        except httpx2.TransportError:
            pass
        finally:
            timer.join()


@contextmanager
def life(folder: Path, seed: int) -> Iterator[Life]:
    """Whatever still runs at the end is ended, a failed test's servers too."""
    (folder / "work").mkdir()
    found = Life(Daemons(folder), folder / "work", Random(seed))
    try:
        yield found
    finally:
        found.daemon.close()
        for process in processes_of(folder):
            with suppress(psutil.NoSuchProcess):
                process.kill()


def processes_of(folder: Path) -> list[psutil.Process]:
    """Servers and their supervisors: what runs in the folder or names it."""
    found = []
    for process in psutil.process_iter():
        try:
            named = any(str(folder) in word for word in process.cmdline())
            if process.pid != os.getpid() and (named or process.cwd().startswith(str(folder))):
                found.append(process)
        except psutil.Error:
            continue
    return found


def rows(store: Path, query: str, *values: Any) -> list[Any]:
    """Read the database of a daemon that has ended, or runs, without it."""
    with closing(sqlite3.connect(f"file:{store / 'sitrep.db'}?mode=ro", uri=True)) as db:
        return db.execute(query, values).fetchall()
