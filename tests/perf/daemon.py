"""How long a daemon takes to answer, and what it costs while nothing happens."""

from __future__ import annotations

import functools
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from tests.helpers import free_port
from tests.perf.measure import Figure, benchmark, median

_RUNS = 5
_SETTLE_S = 5.0
_IDLE_S = 20.0
_BARE = """
import sys, uvicorn
from fastapi import FastAPI
app = FastAPI()
@app.get("/api/v1/health")
async def health(): return {"status": "ok"}
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", access_log=False)
"""


def answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as connection:
            connection.sendall(f"GET /api/v1/health HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
            return connection.recv(64).startswith(b"HTTP/1.1 200")
    except OSError:
        return False


def time_to_answer(command: list[str], port: int, env: dict[str, str]) -> tuple[float, subprocess.Popen[bytes]]:
    """Seconds from exec to the first answer of 200."""
    started = time.perf_counter()
    process = subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while not answers(port):
        if process.poll() is not None or time.perf_counter() - started > 60:
            raise RuntimeError(f"{command[0]} did not come up")
        time.sleep(0.002)
    return time.perf_counter() - started, process


@functools.cache
def _bytecode() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="perf-bytecode-")


def _compiled() -> dict[str, str]:
    """The environment with a place for bytecode, which an installed daemon finds and a development machine may forbid."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return env | {"PYTHONPYCACHEPREFIX": _bytecode().name}


@contextmanager
def serving(folder: Path) -> Iterator[tuple[float, subprocess.Popen[bytes], int]]:
    """`sitrep serve` on a store in `folder`: seconds to its first answer, its process, its port."""
    port = free_port()
    env = _compiled() | {"SITREP_DATA_DIR": str(folder), "SITREP_PORT": str(port), "SITREP_ADOPT": "false"}
    command = [shutil.which("sitrep") or str(Path(sys.executable).with_name("sitrep")), "serve"]
    seconds, process = time_to_answer(command, port, env)
    try:
        yield seconds, process, port
    finally:
        process.terminate()
        process.wait(20)


def _bare_start() -> float:
    port = free_port()
    seconds, process = time_to_answer([sys.executable, "-c", _BARE, str(port)], port, _compiled())
    process.terminate()
    process.wait(20)
    return seconds


@benchmark("startup_s", "startup_fresh_s")
def startup() -> Iterator[Figure]:
    """From exec to the first answer, on a new store and on one that exists, beside a bare FastAPI application."""
    fresh: list[float] = []
    again: list[float] = []
    bare: list[float] = []
    for number in range(_RUNS + 1):
        with tempfile.TemporaryDirectory() as folder:
            for times in (fresh, again):
                with serving(Path(folder)) as (seconds, _process, _port):
                    times.append(seconds)
        bare.append(_bare_start())
        if number == 0:  # everything was compiled and read from the disk
            for times in (fresh, again, bare):
                times.clear()
    peer = f"bare FastAPI {median(bare):.2f} s"
    yield Figure("startup_s", median(again), "s", peer, median(again) / median(bare), 1.5)
    yield Figure("startup_fresh_s", median(fresh), "s", peer, median(fresh) / median(bare), 1.5, "new store")


@benchmark("idle_rss_mb", "idle_cpu_percent")
def idle() -> Iterator[Figure]:
    """Memory and processor of a daemon that nobody speaks to."""
    with tempfile.TemporaryDirectory() as folder:
        with serving(Path(folder)):
            pass  # what is compiled at the very first start stays in the memory of that daemon
        yield from _at_rest(Path(folder))


def _at_rest(folder: Path) -> Iterator[Figure]:
    with serving(folder) as (_seconds, process, _port):
        daemon = psutil.Process(process.pid)
        time.sleep(_SETTLE_S)
        before, started = sum(daemon.cpu_times()[:2]), time.perf_counter()
        time.sleep(_IDLE_S)
        busy = (sum(daemon.cpu_times()[:2]) - before) / (time.perf_counter() - started)
        yield Figure("idle_rss_mb", daemon.memory_info().rss / 1e6, "MB", limit=100)
        yield Figure("idle_cpu_percent", 100 * busy, "% of a core", limit=1)
