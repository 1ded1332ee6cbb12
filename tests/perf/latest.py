"""The latest checkpoint over HTTP, beside a bare FastAPI route that returns the same bytes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx2
from tests.helpers import free_port
from tests.perf.daemon import serving, time_to_answer
from tests.perf.measure import Figure, benchmark, median, percentile

_ROUNDS = 5
_SECONDS = 3
_CONNECTIONS = 4
_REFERENCE = Path(__file__).parents[1] / "data" / "reference-session.jsonl"
_BARE = """
import sys, uvicorn
from pathlib import Path
from fastapi import FastAPI, Response
app = FastAPI()
body = Path(sys.argv[2]).read_bytes()
@app.get("/api/v1/health")
async def health(): return {"status": "ok"}
@app.get("/latest")
async def latest(): return Response(body, media_type="text/markdown; charset=utf-8")
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", access_log=False,
            http="httptools", loop="asyncio", ws="none", server_header=False, proxy_headers=False)
"""


def load(url: str, token: str) -> tuple[float, float]:
    """(requests a second, p99 in ms) of wrk with four connections for a few seconds."""
    wrk = shutil.which("wrk")
    if wrk is None:
        raise SystemExit("This benchmark needs wrk: apt-get install wrk")
    command = [
        wrk,
        "-t1",
        f"-c{_CONNECTIONS}",
        f"-d{_SECONDS}s",
        "--latency",
        "-H",
        f"Authorization: Bearer {token}",
        url,
    ]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    if "Non-2xx" in told or "Socket errors" in told:
        raise RuntimeError(told)
    rate = float(re.findall(r"Requests/sec:\s+([\d.]+)", told)[0])
    value, unit = re.findall(r"99%\s+([\d.]+)(us|ms|s)", told)[0]
    return rate, float(value) * {"us": 0.001, "ms": 1.0, "s": 1000.0}[unit]


@benchmark("checkpoint_latest_vs_bare", "checkpoint_latest_p99_ms")
def latest() -> Iterator[Figure]:
    """Requests in turn against both servers, round by round, so that a drift of the machine meets both."""
    with tempfile.TemporaryDirectory() as name, serving(Path(name) / "store") as (_seconds, _process, port):
        folder = Path(name)
        token = (folder / "store" / "token").read_text().strip()
        url = f"http://127.0.0.1:{port}/api/v1/sessions/current/checkpoints/latest"
        with httpx2.Client(headers={"Authorization": f"Bearer {token}"}, trust_env=False, timeout=60) as client:
            client.post(f"http://127.0.0.1:{port}/api/v1/import", content=_REFERENCE.read_bytes()).raise_for_status()
            (folder / "body").write_bytes(client.get(url).raise_for_status().content)
        bare_port = free_port()
        _, bare = time_to_answer(
            [sys.executable, "-c", _BARE, str(bare_port), str(folder / "body")], bare_port, dict(os.environ)
        )
        try:
            rounds = [(load(url, token), load(f"http://127.0.0.1:{bare_port}/latest", token)) for _ in range(_ROUNDS)]
        finally:
            bare.terminate()
            bare.wait(20)
    ratios = [ours[0] / theirs[0] for ours, theirs in rounds]
    rate, bare_rate = median([ours[0] for ours, _ in rounds]), median([theirs[0] for _, theirs in rounds])
    peer = f"bare FastAPI route {bare_rate:.0f} requests/s"
    yield Figure(
        "checkpoint_latest_vs_bare", median(ratios), "ratio", peer, median(ratios), 0.9, f"{rate:.0f} requests/s"
    )
    slow = percentile([ours[1] for ours, _ in rounds], 0.5)
    theirs = percentile([bare[1] for _, bare in rounds], 0.5)
    yield Figure("checkpoint_latest_p99_ms", slow, "ms", f"bare FastAPI route {theirs:.2f} ms", slow / theirs, 15)
