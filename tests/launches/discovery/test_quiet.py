"""Nothing is asked that makes an engine generate while a benchmark runs."""

from __future__ import annotations

import os
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from sitrepd.launches import readiness as asking
from sitrepd.launches.engines.generic import GenericEngine
from sitrepd.launches.engines.sglang import SglangEngine
from sitrepd.launches.readiness import Readiness


@contextmanager
def old_sglang() -> Iterator[tuple[int, Counter[str]]]:
    """A port where there is no /ready, and the paths that were asked for."""
    asked: Counter[str] = Counter()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked[self.path] += 1
            self.send_response(200 if self.path == "/health" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            yield server.server_address[1], asked
        finally:
            server.shutdown()


def test_health_is_not_asked_during_a_benchmark() -> None:
    engine, running = SglangEngine(), [True]
    with old_sglang() as (port, asked):
        facts = engine.describe(["python", "-m", "sglang.launch_server", "--port", str(port)], {})
        readiness = Readiness(engine, facts, may_disturb=lambda: not running)
        assert not readiness.judge(lambda: [os.getpid()], log_readable=False)
        assert asked == {"/ready": 1}
        running.clear()
        again = Readiness(engine, facts, may_disturb=lambda: not running)
        assert again.judge(lambda: [os.getpid()], log_readable=False)
        assert asked == {"/ready": 2, "/health": 1}


def test_silent_ports_are_not_asked_at_each_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that does not answer costs each look a second, and the other launches wait for it."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.setblocking(False)
        port = silent.getsockname()[1]
        monkeypatch.setattr(asking, "ports_of", lambda _: {port})
        engine = GenericEngine()
        readiness = Readiness(engine, engine.describe(["./serve"], {}))
        assert [readiness.find_port(lambda: [os.getpid()]) for _ in range(3)] == [None] * 3
        assert _connections(silent) == 1
        readiness._sought_at -= 60
        readiness.find_port(lambda: [os.getpid()])
        assert _connections(silent) == 1


def test_only_where_nothing_is_told_a_port_is_sought() -> None:
    def nobody() -> list[int]:
        raise AssertionError("its processes were looked at")

    for engine, argv in (
        (GenericEngine(ready_url="http://127.0.0.1:1/"), ["./serve"]),
        (GenericEngine(ready_pattern="up"), ["./serve"]),
        (GenericEngine(), ["./serve", "--port", "8000"]),
        (SglangEngine(), ["python", "-m", "sglang.launch_server"]),
    ):
        assert Readiness(engine, engine.describe(argv, {})).find_port(nobody) is None


def _connections(server: socket.socket) -> int:
    """How many wait to be accepted."""
    count = 0
    while True:
        try:
            server.accept()[0].close()
        except BlockingIOError:
            return count
        count += 1
