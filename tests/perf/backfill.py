"""How long a gigabyte of logs and a thousand results take to become facts, from the command line to the store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.perf.daemon import serving
from tests.perf.measure import Figure, benchmark

_DATA = Path(__file__).parent.parent / "data"
_BYTES = 1 << 30
_LOGS, _RESULTS = 12, 1000
_LIMIT_S = 60
_COUNT = """
import sys
for path in sys.argv[1:]:
    with open(path, "rb") as file:
        print(sum(1 for _ in file))
"""


def _serving_lines(size: int) -> str:
    """What a busy server prints for days."""
    lines: list[str] = []
    at, written, number = datetime(2026, 12, 1, 1, 25, tzinfo=UTC), 0, 0
    while written < size:
        number += 1
        at += timedelta(seconds=number % 5 == 0)
        head = f"[{at:%Y-%m-%d %H:%M:%S}] "
        if number % 4 == 0:
            text = (
                f"Decode batch, #running-req: {number % 64}, #token: {number}, token usage: 0.04, accept len: 2.81, "
                f"accept rate: 0.60, cuda graph: True, gen throughput (token/s): 659.41, #queue-req: 0"
            )
        elif number % 4 == 1:
            text = (
                "Prefill batch, #new-seq: 1, #new-token: 3, #cached-token: 0, token usage: 0.00, #running-req: 0, "
                "#queue-req: 0, cuda graph: False, input throughput (token/s): 1.20"
            )
        else:
            text = f'INFO:     127.0.0.1:{number % 60000} - "POST /generate HTTP/1.1" 200 OK'
        lines.append(f"{head}{text}\n")
        written += len(lines[-1])
    return "".join(lines)


def _project(folder: Path) -> list[Path]:
    """Logs of starts that became ready and served, some of them broken after it, and results that belong to them."""
    start = (_DATA / "logs" / "h200-0.5.16-eagle3-s3.log").read_bytes().decode().partition("SIGTERM")[0]
    failed = (_DATA / "logs" / "h200-0.5.16-fail-memfraction.log").read_bytes().decode()
    served = _serving_lines(_BYTES // _LOGS)
    logs = []
    for number in range(_LOGS):
        log = folder / f"server-{number}.log"
        text = start.replace("253890220", str(253890220 + number)).rpartition("\n")[0] + "\n" + served
        log.write_text(
            text + (failed.replace("846005047", str(846005047 + number)) if number % 3 == 0 else ""), newline=""
        )
        logs.append(log)
    told = json.loads((_DATA / "bench" / "sglang-0.5.16-eagle3-3-steps.jsonl").read_text().splitlines()[0])
    for number in range(_RESULTS):
        told["duration"] = 10 + number / 7
        told["server_info"]["random_seed"] = 253890220 + number % _LOGS
        (folder / f"result-{number}.jsonl").write_text(json.dumps(told) + "\n")
    return logs


@benchmark("backfill_s")
def backfill() -> Iterator[Figure]:
    """The command line as a process of its own, beside a daemon; its peer only counts the lines of the logs."""
    with tempfile.TemporaryDirectory() as name, serving(Path(name) / "store") as (_seconds, _process, _port):
        folder = Path(name) / "project"
        folder.mkdir()
        logs = _project(folder)
        env = os.environ | {"SITREP_DATA_DIR": str(Path(name) / "store")}
        command = [sys.executable, "-m", "sitrepd.cli"]
        subprocess.run([*command, "session", "open", "old work"], env=env, check=True, stdout=subprocess.DEVNULL)
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", _COUNT, *map(str, logs)], check=True, stdout=subprocess.DEVNULL)
        counted_s = time.perf_counter() - began
        began = time.perf_counter()
        done = subprocess.run(
            [*command, "backfill", str(folder), "--json"], env=env, check=True, capture_output=True, timeout=600
        )
        seconds = time.perf_counter() - began
    told = json.loads(done.stdout)
    tied = sum("launch" in run for run in told["benchmarks"])
    failed = -(-_LOGS // 3)
    assert (len(told["launches"]), len(told["benchmarks"]), tied) == (_LOGS + failed, _RESULTS, _RESULTS), told["notes"]
    size = told["bytes"] / 1e9
    peer = f"reading the lines of the logs in Python {counted_s:.1f} s"
    yield Figure(
        "backfill_s", seconds, "s", peer, seconds / counted_s, _LIMIT_S, f"{size:.2f} GB in {told['files']} files"
    )
