"""Nothing is asked that makes an engine generate while a benchmark runs."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

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
