"""How many metric values a second are taken in and durable, beside MLflow and trackio on the same machine.

The peers are installed on demand, with uv, into an environment of their own in a temporary folder.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.helpers import free_port
from tests.perf.daemon import serving
from tests.perf.measure import Figure, benchmark

_NAMES = [f"metric_{number}" for number in range(10)]
_BATCH_STEPS = 1000
_BATCHES = 30
_RUNS = 3
_MLFLOW_LIMIT = 1000
"""Values that MLflow's server takes in one request."""
_INSTALL_S = 400
_WANTED = 50_000

_TRACKIO = """
import json, sqlite3, sys, time
from pathlib import Path
import trackio
names, steps, folder = json.loads(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
wanted = len(names) * steps
run = trackio.init(project="perf", space_id=None)
def stored():
    count = 0
    for path in folder.rglob("*.db"):
        try:
            with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
                count = max(count, db.execute("select count(*) from metrics").fetchone()[0])
        except sqlite3.Error:
            pass
    return count
began = time.perf_counter()
for step in range(steps):
    trackio.log({name: step + 0.125 for name in names}, step=step)
trackio.finish()
deadline = time.perf_counter() + 120
while stored() < steps and time.perf_counter() < deadline:
    time.sleep(0.01)
print(json.dumps([stored() * len(names), time.perf_counter() - began]))
"""


@benchmark("ingest_values_per_s")
def ingest() -> Iterator[Figure]:
    """Values acknowledged by REST a second, each of them durable; the peers with their own batches, as they advise."""
    own = [_sitrep() for _ in range(_RUNS)]
    value = statistics.median(own)
    with tempfile.TemporaryDirectory() as folder:
        peers = list(_peers(Path(folder)))
    yield Figure("ingest_values_per_s", value, "values/s", limit=_WANTED, note=f"{_RUNS} runs, {_spread(own)}")
    for name, found, note in peers:
        if found is None:
            yield Figure("ingest_values_per_s", value, "values/s", f"{name}: not measured", note=note)
        else:
            yield Figure("ingest_values_per_s", value, "values/s", f"{name} {found:.0f}", value / found, note=note)


def _spread(values: list[float]) -> str:
    return f"{min(values):.0f} to {max(values):.0f}"


# --- ours ------------------------------------------------------------------------------------------------------------


def _sitrep() -> float:
    """Ten metrics of a thousand steps a request, over one connection of TCP."""
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as (_seconds, _process, port):
        token = (Path(folder) / "token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        _post(connection, "/api/v1/sessions", {"name": "perf"}, headers)
        training = _post(connection, "/api/v1/trainings", {"name": "perf"}, headers)["id"]
        path = f"/api/v1/trainings/{training}/points"
        _post(connection, path, _columns(0), headers)
        bodies = [json.dumps(_columns(at + 1)).encode() for at in range(_BATCHES)]
        began = time.perf_counter()
        stored = sum(_send(connection, path, body, headers)["stored"] for body in bodies)
        return stored / (time.perf_counter() - began)


def _columns(at: int) -> dict[str, Any]:
    steps = range(at * _BATCH_STEPS, (at + 1) * _BATCH_STEPS)
    return {"step": list(steps), "metrics": {name: [step + 0.125 for step in steps] for name in _NAMES}}


def _post(connection: http.client.HTTPConnection, path: str, told: Any, headers: dict[str, str]) -> Any:
    return _send(connection, path, json.dumps(told).encode(), headers)


def _send(connection: http.client.HTTPConnection, path: str, body: bytes, headers: dict[str, str]) -> Any:
    connection.request("POST", path, body, headers)
    answer = connection.getresponse()
    told = answer.read()
    if answer.status >= 300:
        raise RuntimeError(f"{path}: {answer.status} {told[:300]!r}")
    return json.loads(told or b"null")


# --- peers -----------------------------------------------------------------------------------------------------------


def _peers(folder: Path) -> Iterator[tuple[str, float | None, str]]:
    for name, package, run in (("MLflow", "mlflow", _mlflow), ("trackio", "trackio", _trackio)):
        try:
            python, version = _installed(folder / package, package)
            yield name, *run(python, folder, version)
        except (OSError, RuntimeError, ValueError, subprocess.SubprocessError) as error:
            yield name, None, str(error).strip().splitlines()[-1][:200]


def _installed(folder: Path, package: str) -> tuple[str, str]:
    uv = shutil.which("uv")
    if uv is None:
        raise RuntimeError("uv is not on the PATH")
    env = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    python = str(folder / "bin" / "python")
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, folder], check=True, env=env, timeout=_INSTALL_S)
    command = [uv, "pip", "install", "-q", "--python", python, package]
    subprocess.run(command, check=True, env=env, timeout=_INSTALL_S, cwd=folder)
    asked = f"import importlib.metadata as m; print(m.version({package!r}))"
    return python, subprocess.run([python, "-c", asked], capture_output=True, text=True, check=True).stdout.strip()


def _mlflow(python: str, folder: Path, version: str) -> tuple[float, str]:
    """Its server on SQLite, by log-batch with as many values as it takes."""
    with _mlflow_server(python, folder) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        headers = {"Content-Type": "application/json"}
        api = "/api/2.0/mlflow"
        told = {"experiment_id": "0", "start_time": int(time.time() * 1000)}
        run = _post(connection, f"{api}/runs/create", told, headers)["run"]["info"]["run_id"]
        steps = _MLFLOW_LIMIT // len(_NAMES)
        bodies = [json.dumps(_batch(run, at, steps)).encode() for at in range(9)]
        _send(connection, f"{api}/runs/log-batch", bodies[0], headers)
        began = time.perf_counter()
        for body in bodies[1:]:
            _send(connection, f"{api}/runs/log-batch", body, headers)
        seconds = time.perf_counter() - began
        return (len(bodies) - 1) * steps * len(
            _NAMES
        ) / seconds, f"MLflow {version}, SQLite, log-batch of {_MLFLOW_LIMIT}"


def _batch(run: str, at: int, steps: int) -> dict[str, Any]:
    now = int(time.time() * 1000)
    found = [
        {"key": name, "value": step + 0.125, "timestamp": now, "step": step}
        for step in range(at * steps, (at + 1) * steps)
        for name in _NAMES
    ]
    return {"run_id": run, "metrics": found}


@contextmanager
def _mlflow_server(python: str, folder: Path) -> Iterator[int]:
    port = free_port()
    command = [
        python, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
        "--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", str(folder / "artifacts"),
    ]  # fmt: skip
    path = os.pathsep.join([str(Path(python).parent), os.environ.get("PATH", os.defpath)])
    env = {**os.environ, "PATH": path, "MLFLOW_DISABLE_TELEMETRY": "true"}
    with open(folder / "mlflow.log", "wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, start_new_session=True, env=env)
    try:
        _await(process, f"http://127.0.0.1:{port}/health", folder / "mlflow.log")
        yield port
    finally:
        os.killpg(process.pid, 9)
        process.wait(20)


def _await(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"MLflow did not come up: {log.read_text(errors='replace')[-300:]}")


def _trackio(python: str, folder: Path, version: str) -> tuple[float, str]:
    """Its own client, which writes into SQLite through its local server."""
    data = folder / "trackio-data"
    data.mkdir()
    steps = 2000
    env = {**os.environ, "TRACKIO_DIR": str(data), "HF_HUB_OFFLINE": "1", "GRADIO_ANALYTICS_ENABLED": "False"}
    done = subprocess.run(
        [python, "-c", _TRACKIO, json.dumps(_NAMES), str(steps), str(data)],
        capture_output=True, text=True, timeout=300, env=env, cwd=folder,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr or done.stdout)
    stored, seconds = json.loads(done.stdout.strip().splitlines()[-1])
    if stored < steps * len(_NAMES):
        raise RuntimeError(f"trackio stored {stored} of {steps * len(_NAMES)} values")
    return stored / seconds, f"trackio {version}, trackio.log of {len(_NAMES)} values a step"
