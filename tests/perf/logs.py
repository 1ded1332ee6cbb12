"""How fast a log is caught up with, what following growing logs costs, and how soon a ready server is said to be ready."""

from __future__ import annotations

import os
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import httpx2
import psutil
from tests.helpers import free_port, wait_until
from tests.launches.reading import LOGS
from tests.perf.daemon import serving
from tests.perf.measure import Figure, benchmark, median

from sitrepd.launches.engines import engine_named
from sitrepd.launches.engines.base import Ready
from sitrepd.launches.follow import LogFollower

_LOG_BYTES = 300_000_000
_MILESTONES = "fired up|Load weight|Capture |Traceback|server_args"
_FOLLOWED = 10
_SETTLE_S, _FOLLOW_S = 8.0, 30.0
_READY_RUNS = 5
_SERVER = """
import http.server, sys, time
log = open(sys.argv[1], "rb").read().decode().replace("\\r", "\\n").splitlines()
begin, figures = log[:120], [line for line in log if "] Decode batch" in line]
for line in begin:
    print(line, flush=True)
if sys.argv[2] != "0":
    server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[2])), http.server.BaseHTTPRequestHandler)
    print(time.strftime("[%Y-%m-%d %H:%M:%S]"), "The server is fired up and ready to roll!", flush=True)
for n in range(10**9):
    print(time.strftime("[%Y-%m-%d %H:%M:%S]") + figures[n % len(figures)][21:], flush=True)
    time.sleep(1)
"""


def long_log(path: Path, size: int = _LOG_BYTES) -> None:
    """A recorded start, and then its batch and access lines over and over."""
    start = (LOGS / "h200-0.5.16-eagle3-s3.log").read_bytes()
    words = (b"] Decode batch", b"] Prefill batch", b"] INFO:     127")
    busy = b"".join(
        line
        for line in start.splitlines(keepends=True)
        if line.startswith(b"[") and any(word in line for word in words)
    )
    with path.open("wb") as file:
        file.write(start)
        while file.tell() < size:
            file.write(busy * 64)


def scan(path: Path) -> float:
    """Processor seconds from the first byte to the last, events and all."""
    engine = engine_named("sglang")
    follower, parser, now = LogFollower(path), engine.parser(tz=UTC), datetime.now(UTC)
    follower.skim = engine.skim
    began, ready = time.process_time(), 0
    while not follower.at_end:
        for line in follower.read():
            ready += sum(isinstance(event, Ready) for event in parser.feed(line, now))
    assert ready == 1
    return time.process_time() - began


def grep(path: Path) -> float:
    """Processor seconds of `grep -cE` for some of the milestones."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(["grep", "-cE", _MILESTONES, str(path)], env={"LC_ALL": "C"}, check=True, stdout=subprocess.PIPE)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@benchmark("log_scan_mb_per_s")
def log_scan() -> Iterator[Figure]:
    """Catching up on the log of a server that was found late, in turns with grep."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "server.log"
        long_log(path)
        size = path.stat().st_size / 1e6
        rounds = [(scan(path), grep(path)) for _ in range(3)]
    ours, theirs = (size / median([one[place] for one in rounds]) for place in (0, 1))
    note = f"a log of {size:.0f} MB, at least 200 wanted"
    yield Figure("log_scan_mb_per_s", ours, "MB/s of one core", f"grep -cE {theirs:.0f} MB/s", ours / theirs, note=note)


def _client(folder: Path) -> httpx2.Client:
    return httpx2.Client(
        transport=httpx2.HTTPTransport(uds=str(folder / "sitrep.sock")), base_url="http://localhost", timeout=60
    )


def _launch(client: httpx2.Client, folder: Path, name: str, port: int) -> str:
    script = folder / "server.py"
    if not script.exists():  # a server may be reading it
        script.write_text(_SERVER)
    recorded = LOGS / "h200-0.5.16-eagle3-s3.log"
    command = f"{shlex.quote(sys.executable)} {script} {recorded} {port} > {folder / name} 2>&1 &"
    body = {"command": command, "cwd": str(folder), "engine": "sglang", "port": port or free_port()}
    answer = client.post("/api/v1/launches", json=body).raise_for_status().json()
    return str(answer["id"])


def _is_ready(client: httpx2.Client, launch: str) -> bool:
    return bool(client.get(f"/api/v1/launches/{launch}").json()["state"] == "ready")


def _busy(daemon: psutil.Process, seconds: float) -> float:
    """Percent of a core over so long."""
    before, began = sum(daemon.cpu_times()[:2]), time.perf_counter()
    time.sleep(seconds)
    return 100 * (sum(daemon.cpu_times()[:2]) - before) / (time.perf_counter() - began)


@benchmark("follow_cpu_percent")
def follow() -> Iterator[Figure]:
    """What a daemon uses for ten ready servers that print a batch line each second, beside what it uses for none."""
    with tempfile.TemporaryDirectory() as name, serving(Path(name) / "store") as (_seconds, process, _port):
        folder, daemon = Path(name), psutil.Process(process.pid)
        with _client(folder / "store") as client:
            time.sleep(_SETTLE_S)
            idle = _busy(daemon, _FOLLOW_S)
            ports: set[int] = set()
            while len(ports) < _FOLLOWED:
                ports.add(free_port())
            launches = [_launch(client, folder, f"log{port}", port) for port in ports]
            try:
                for one in launches:
                    wait_until(partial(_is_ready, client, one), 60)
                time.sleep(_SETTLE_S)
                busy = _busy(daemon, _FOLLOW_S)
            finally:
                for one in launches:
                    client.post(f"/api/v1/launches/{one}/stop", json={"grace_s": 0, "wait_s": 10})
    note = f"{_FOLLOWED} logs; with all that the daemon does {busy:.2f} %"
    yield Figure("follow_cpu_percent", busy - idle, "% of a core", f"no log {idle:.2f} %", limit=1, note=note)


@benchmark("ready_detection_ms")
def ready() -> Iterator[Figure]:
    """From the ready line in the log to the state in the API, on the start of the demo."""
    with tempfile.TemporaryDirectory() as name, serving(Path(name) / "store") as (_seconds, _process, _port):
        folder = Path(name)
        with _client(folder / "store") as client:
            times = [_ready_after(client, folder, f"log{n}") for n in range(_READY_RUNS)]
    note = f"worst of {_READY_RUNS} {max(times):.0f} ms"
    yield Figure("ready_detection_ms", median(times), "ms", limit=500, note=note)


def _ready_after(client: httpx2.Client, folder: Path, name: str) -> float:
    port, log = free_port(), folder / name
    command = f"{shlex.quote(sys.executable)} -m sitrepd.demo.replay --duration 4 --port {port} > {log} 2>&1 &"
    body = {"command": command, "cwd": str(folder), "engine": "sglang", "port": port, "env": dict(os.environ)}
    launch = client.post("/api/v1/launches", json=body).raise_for_status().json()["id"]
    try:
        told = wait_until(
            lambda: b"fired up" in (log.read_bytes() if log.exists() else b"") and time.perf_counter(), 60, 0.002
        )
        wait_until(partial(_is_ready, client, launch), 30, 0.005)
        return 1000 * (time.perf_counter() - told)
    finally:
        client.post(f"/api/v1/launches/{launch}/stop", json={"grace_s": 1, "wait_s": 10})
