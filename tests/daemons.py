"""A real daemon as a child process, and an application in this process, for tests that speak HTTP."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2
from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.routing import BaseRoute
from tests.helpers import PATIENCE_S, wait_until

from sitrepd.app import create_app
from sitrepd.late import LateRoutes, make_all
from sitrepd.settings import load_settings
from sitrepd.storage import migrations

_SERVE = """
import sys
from sitrepd.errors import SitrepError
from sitrepd.server import serve
from sitrepd.settings import load_settings
from sitrepd.storage import migrations
try:
    sys.exit(serve(load_settings()))
except SitrepError as error:
    sys.exit(error.detail)
"""


class Daemon:
    """`client` speaks through the Unix socket, `tcp` with the token."""

    def __init__(self, data_dir: Path, **settings: Any) -> None:
        self.data_dir = data_dir
        self.env = os.environ | {"SITREP_DATA_DIR": str(data_dir), "SITREP_PORT": "0", "SITREP_ADOPT": "false"}
        self.env |= {f"SITREP_{name.upper()}": str(value) for name, value in settings.items()}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Daemon:
        (self.data_dir / "sitrep.sock").unlink(missing_ok=True)
        self.process = subprocess.Popen([sys.executable, "-c", _SERVE], env=self.env, stderr=subprocess.PIPE)
        try:
            wait_until(self._answers)
        except AssertionError:
            self._abandon()
            raise
        self.client = httpx2.Client(
            transport=httpx2.HTTPTransport(uds=str(self.data_dir / "sitrep.sock")),
            base_url="http://localhost",
            timeout=PATIENCE_S,
        )
        about = self.client.get("/api/v1/about").json()
        self.url = about["url"]
        token = (self.data_dir / "token").read_text().strip()
        self.tcp = httpx2.Client(
            base_url=self.url, headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE_S, trust_env=False
        )
        return self

    def _abandon(self) -> None:
        assert self.process is not None
        assert self.process.stderr is not None
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()
        self.process = None

    def _answers(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            assert self.process.stderr is not None
            raise AssertionError(f"the daemon ended: {self.process.stderr.read().decode()}")
        path = self.data_dir / "sitrep.sock"
        if not path.exists():
            return False
        try:
            with httpx2.Client(transport=httpx2.HTTPTransport(uds=str(path))) as client:
                return client.get("http://localhost/api/v1/health").status_code == 200
        except httpx2.TransportError:
            return False

    def end(self, signum: int = signal.SIGTERM) -> int:
        assert self.process is not None
        self.client.close()
        self.tcp.close()
        self.process.send_signal(signum)
        code = self.process.wait(PATIENCE_S)
        assert self.process.stderr is not None
        self.process.stderr.close()
        self.process = None
        return code

    def restart(self, signum: int = signal.SIGKILL) -> Daemon:
        self.end(signum)
        return self.start()


@contextmanager
def running_daemon(data_dir: Path, **settings: Any) -> Iterator[Daemon]:
    """A daemon on a store of its own; it is ended, and whatever it launched is stopped, at the end of the block."""
    daemon = Daemon(data_dir, **settings).start()
    try:
        yield daemon
    finally:
        if daemon.process is not None:
            _stop_launches(daemon)
            daemon.end()


def _stop_launches(daemon: Daemon) -> None:
    try:
        launches = daemon.client.get("/api/v1/launches").json()["data"]
        for launch in launches:
            if launch["watched"] and "ended_at" not in launch and launch["provenance"] != "observed":
                daemon.client.post(f"/api/v1/launches/{launch['id']}/stop", json={"grace_s": 1, "wait_s": 10})
    except httpx2.TransportError:
        pass


@cache
def _migrated() -> bytes:
    """A database with the present schema and nothing in it: migrating takes longer than most tests."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "sitrep.db"
        migrations.upgrade(path)
        with closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return path.read_bytes()


def seed(data_dir: Path) -> None:
    """A store's folder with an empty database, unless there is one."""
    data_dir.mkdir(parents=True, exist_ok=True)
    if not (data_dir / "sitrep.db").exists():
        (data_dir / "sitrep.db").write_bytes(_migrated())


_made: list[BaseRoute] = []


def _share_routes(app: FastAPI) -> None:
    """The routes of the first application serve all: making them takes longer than most tests.

    Those that are made late ask the request which application it is for; the others are each application's own.
    """
    own = [route for route in app.router.routes if not isinstance(route, LateRoutes)]
    if not _made:
        make_all(app)
        _made.extend(route for route in app.router.routes if route not in own and not isinstance(route, LateRoutes))
    app.router.routes[:] = own + _made


@contextmanager
def application(data_dir: Path, **settings: Any) -> Iterator[TestClient]:
    """The application in this process, as a TCP client with the token sees it."""
    seed(data_dir)
    app = create_app(load_settings(data_dir=data_dir, **{"adopt": False} | settings))
    _share_routes(app)
    token = (data_dir / "token").read_text().strip()
    headers = {"Authorization": f"Bearer {token}"}
    with TestClient(app, base_url="http://127.0.0.1:8791", headers=headers) as client:
        yield client
