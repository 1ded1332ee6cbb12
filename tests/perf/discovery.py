"""How long it takes to find the servers among 500 processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
from tests.perf.measure import Figure, benchmark, median

from sitrepd.launches.discovery.find import Rank, find
from sitrepd.launches.discovery.table import read_table

_PROCESSES = 500
_RUNS = 15
# One process that forks the others, which sleep; two of them bear the words of a server and of its rank.
_CROWD = """
import os, signal, sys
crowd = int(sys.argv[1])
for n in range(crowd):
    if os.fork() == 0:
        words = ["python", "-ISc", "import signal; signal.pause()", "--padding", "x" * 400]
        if n == 7:
            os.execv(sys.executable, ["sglang::scheduler_TP0", *words[1:]])
        while True:
            signal.pause()
print("up", flush=True)
signal.pause()
"""


@benchmark("discovery_ms")
def discovery() -> Iterator[Figure]:
    """One look, from /proc to the servers in it; the peer is the same list of words by psutil."""
    crowd = max(0, _PROCESSES - len(read_table()))
    process = subprocess.Popen(
        [sys.executable, "-ISc", _CROWD, str(crowd)], stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        times = [_timed() for _ in range(_RUNS)]
        started = time.perf_counter()
        [one.info for one in psutil.process_iter(["pid", "ppid", "cmdline", "create_time"])]
        peer = 1000 * (time.perf_counter() - started)
        assert any(rank.title == "sglang::scheduler_TP0" for rank in _ranks())
        seen = len(read_table())
    finally:
        os.killpg(process.pid, 9)
        process.communicate()
    found = median(times)
    yield Figure(
        "discovery_ms", found, "ms", peer="psutil.process_iter with the same fields", ratio=found / peer, limit=50,
        note=f"{seen} processes, kernel threads not counted",
    )  # fmt: skip


def _timed() -> float:
    started = time.perf_counter()
    find(read_table())
    return 1000 * (time.perf_counter() - started)


def _ranks() -> list[Rank]:
    found = find(read_table())
    return [*found.loose, *(rank for server in found.servers for rank in server.ranks)]
