"""How many metric values a second are taken in and durable, beside MLflow and trackio on the same machine.

The peers are installed on demand, with uv, into an environment of their own in a temporary folder. Ours are counted when
the daemon has acknowledged them over HTTP, each batch after its own fsync. trackio acknowledges nothing: `trackio.log`
returns at once, and a thread of the same process writes into SQLite, without HTTP and, by its own setting
(synchronous=NORMAL), without an fsync at each commit. It is therefore timed until another connection can read all its
values, by its default and with the durability that ours have, and ours are held against the quicker of the two.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tests.helpers import free_port
from tests.perf.daemon import serving
from tests.perf.measure import Figure, benchmark

_NAMES = [f"metric_{number}" for number in range(10)]
_BATCH_STEPS = 1000
_BATCHES = 30
_RUNS = 3
_VALUES = _BATCHES * _BATCH_STEPS * len(_NAMES)
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
    with tempfile.TemporaryDirectory() as folder:
        peers = [_Peer(*peer, Path(folder)) for peer in _PEERS]
        own = []
        for _ in range(_RUNS):  # in turns, so that what else the machine does meets all of them
            own.append(_sitrep())
            for peer in peers:
                peer.measure()
    value = statistics.median(own)
    yield Figure("ingest_values_per_s", value, "values/s", limit=_WANTED, note=f"{_RUNS} runs, {_spread(own)}")
    for peer in peers:
        yield peer.beside(value)


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


class _Peer:
    """One of the others, in an environment of its own; what it cannot do is told, and does not end the run."""

    def __init__(self, name: str, package: str, run: Callable[[str, Path], float], how: str, folder: Path) -> None:
        self._name, self._run, self._how, self._folder = name, run, how, folder
        self._found: list[float] = []
        self._failure: str | None = None
        try:
            self._python, self._version = _installed(folder / package, package)
        except _FAILURES as error:
            self._failure = _last_line(error)

    def measure(self) -> None:
        if self._failure is not None:
            return
        try:
            with tempfile.TemporaryDirectory(dir=self._folder) as folder:
                self._found.append(self._run(self._python, Path(folder)))
        except _FAILURES as error:
            self._failure = _last_line(error)

    def beside(self, value: float) -> Figure:
        """Our value beside the best that it has reached."""
        if self._failure is not None:
            return Figure("ingest_values_per_s", value, "values/s", f"{self._name}: not measured", note=self._failure)
        best = max(self._found)
        note = f"{self._name} {self._version}, {self._how}; {_spread(self._found)}"
        return Figure("ingest_values_per_s", value, "values/s", f"{self._name} {best:.0f}", value / best, note=note)


_FAILURES = (OSError, RuntimeError, ValueError, subprocess.SubprocessError)


def _last_line(error: Exception) -> str:
    return str(error).strip().splitlines()[-1][:200]


def _installed(folder: Path, package: str) -> tuple[str, str]:
    uv = shutil.which("uv")
    if uv is None:
        raise RuntimeError("uv is not on the PATH")
    env = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    python = str(folder / "bin" / "python")
    if not folder.exists():
        subprocess.run([uv, "venv", "-q", "--python", sys.executable, folder], check=True, env=env, timeout=_INSTALL_S)
        command = [uv, "pip", "install", "-q", "--python", python, package]
        subprocess.run(command, check=True, env=env, timeout=_INSTALL_S, cwd=folder)
    asked = f"import importlib.metadata as m; print(m.version({package!r}))"
    return python, subprocess.run([python, "-c", asked], capture_output=True, text=True, check=True).stdout.strip()


def _mlflow(python: str, folder: Path) -> float:
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
        return (len(bodies) - 1) * steps * len(_NAMES) / (time.perf_counter() - began)


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


def _trackio(python: str, folder: Path, **more: str) -> float:
    """Its own client, which writes into SQLite in a thread; as many values as ours."""
    data = folder / "trackio-data"
    data.mkdir()
    env = {**os.environ, "TRACKIO_DIR": str(data), "HF_HUB_OFFLINE": "1", "GRADIO_ANALYTICS_ENABLED": "False", **more}
    done = subprocess.run(
        [python, "-c", _TRACKIO, json.dumps(_NAMES), str(_VALUES // len(_NAMES)), str(data)],
        capture_output=True, text=True, timeout=300, env=env, cwd=folder,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr or done.stdout)
    stored, seconds = json.loads(done.stdout.strip().splitlines()[-1])
    if stored < _VALUES:
        raise RuntimeError(f"trackio stored {stored} of {_VALUES} values")
    return float(stored / seconds)


_PEERS = (
    ("MLflow", "mlflow", _mlflow, f"its server on SQLite, log-batch of {_MLFLOW_LIMIT}"),
    ("trackio", "trackio", _trackio, f"trackio.log of {len(_NAMES)} values a step, its own durability"),
    (
        "trackio as durable", "trackio", partial(_trackio, TRACKIO_SQLITE_SYNCHRONOUS="full"),
        "the same with synchronous=FULL",
    ),
)  # fmt: skip
