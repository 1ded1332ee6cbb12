"""A server that was ready and does not work any more is told of; one that has nothing to do is not."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.daemons import running_daemon
from tests.helpers import free_port, wait_until
from tests.launches.test_service import get, start, until

from sitrepd.launches.engines.base import Failed, Throughput
from sitrepd.launches.serving import Serving

LEAST_S = 120.0
_NOW = datetime(2026, 12, 1, tzinfo=UTC)
# Decodes once, and from then on answers nothing but what was told, in its second word.
_DEAF = """
import http.server, sys, time
def say(text): print(time.strftime("[%Y-%m-%d %H:%M:%S]"), text, flush=True)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(int(sys.argv[2])); self.end_headers()
    def log_message(self, *_): pass
say("server_args={'model_path': '/m', 'port': %s}" % sys.argv[1])
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
say("The server is fired up and ready to roll!")
say("Decode batch, #running-req: 3, #token: 900, token usage: 0.02, cuda graph: True, gen throughput (token/s): 81.20, #queue-req: 2")
server.serve_forever()
"""


# Ready, then told by signals to log a failed request, and that one of its processes died; it lives on, as SGLang does.
_BEREFT = """
import signal, sys, time
def say(text): print(time.strftime("[%Y-%m-%d %H:%M:%S]"), text, flush=True)
def request(*_): say("Request 7 failed: Traceback (most recent call last):"); print("ValueError: too long", flush=True)
def death(*_): say("Subprocess detokenizer (pid=7) crashed with exit code -9. Triggering SIGQUIT for cleanup...")
signal.signal(signal.SIGUSR1, request)
signal.signal(signal.SIGUSR2, death)
import http.server
server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), http.server.BaseHTTPRequestHandler)
say("server_args={'model_path': '/m', 'port': %s}" % sys.argv[1])
say("The server is fired up and ready to roll!")
server.serve_forever()
"""


def decode(running: int, queued: int = 0, batch: Any = "decode") -> Throughput:
    return Throughput(at=_NOW, batch=batch, running=running, queued=queued)


def answer(serving: Serving, now_s: float, may_disturb: bool = True) -> str | None:
    """Looks, waits for the probe that this began, and looks again."""
    serving.look(now_s, lambda: may_disturb)
    for thread in threading.enumerate():
        if thread.name == "sitrep-health":
            thread.join(10)
    return serving.look(now_s, lambda: may_disturb)


def asked(what: str) -> tuple[Serving, list[float]]:
    times: list[float] = []

    def probe(patience_s: float) -> str:
        times.append(patience_s)
        return what

    return Serving(LEAST_S, probe), times


def test_silence_with_requests_in_work_is_asked_about_once() -> None:
    serving, times = asked("no answer")
    now = time.monotonic()
    serving.note(decode(3, 2), now)
    assert answer(serving, now + LEAST_S - 1) is None
    assert times == []
    told = answer(serving, now + LEAST_S)
    assert told is not None
    assert told.startswith("It is ready, and has said nothing since 20")
    assert told.endswith(" UTC with 5 requests in work; its health check does not answer either.")
    assert answer(serving, now + 2 * LEAST_S)
    assert len(times) == 1


def test_a_server_that_answers_has_nothing_to_do() -> None:
    serving, times = asked("answers")
    now = time.monotonic()
    serving.note(decode(1), now)
    assert answer(serving, now + LEAST_S) is None
    serving.note(decode(0, batch="prefill"), time.monotonic())  # the token that the health check itself asked for
    assert answer(serving, now + 100 * LEAST_S) is None
    assert len(times) == 1


def test_a_line_in_the_log_clears_it() -> None:
    serving, _ = asked("error")
    now = time.monotonic()
    serving.note(decode(1), now)
    assert answer(serving, now + LEAST_S + 1)
    serving.moved(now + LEAST_S + 60)
    assert answer(serving, now + LEAST_S + 61) is None


def test_nothing_is_asked_while_something_is_measured() -> None:
    serving, times = asked("no answer")
    now = time.monotonic()
    serving.note(decode(64), now)
    assert answer(serving, now + 4 * LEAST_S, may_disturb=False) is None
    assert answer(serving, now + 5 * LEAST_S + 1, may_disturb=False)
    assert times == []


def test_a_server_without_requests_is_never_asked() -> None:
    serving, times = asked("no answer")
    serving.note(decode(0), 0)
    assert answer(serving, 10 * LEAST_S) is None
    assert Serving(LEAST_S, None).look(1e6, lambda: True) is None
    assert times == []


def test_what_an_earlier_daemon_read_counts() -> None:
    serving, _ = asked("no answer")
    now = time.monotonic()
    serving.restore({"batch": "decode", "running": 2}, now)
    assert answer(serving, now + LEAST_S + 1)


@pytest.mark.parametrize("where", ["subprocess", "child", "scheduler", "process", "watchdog"])
def test_a_part_that_died_is_told_without_a_request(where: str) -> None:
    serving, times = asked("answers")
    serving.fail(Failed(at=_NOW, where=where, cause="detokenizer is gone"))
    told = serving.look(time.monotonic(), lambda: False)
    assert ("detokenizer is gone" in (told or "")) == (where in ("subprocess", "child", "scheduler"))
    again, _ = asked("answers")
    again.restore(None, 0.0, told)
    assert (again.look(1.0, lambda: True), times) == (told, [])


@pytest.mark.slow
def test_a_ready_server_whose_process_died_is_suspect_to_the_next_daemon_too(tmp_path: Path) -> None:
    port = free_port()
    with running_daemon(tmp_path / "store") as daemon:
        argv = [sys.executable, "-c", _BEREFT, str(port)]
        start(daemon, argv=argv, cwd=str(tmp_path), engine="sglang", port=port)
        pid = until(daemon, "L1", "ready")["pid"]
        os.kill(pid, signal.SIGUSR1)
        os.kill(pid, signal.SIGUSR2)
        wait_until(lambda: get(daemon, "L1").get("suspect"), interval_s=0.1)
        told = get(daemon, "L1")["suspect"]
        assert "a part of it has died" in told
        assert "Subprocess detokenizer (pid=7) crashed" in told
        daemon.restart(signal.SIGKILL)
        wait_until(lambda: get(daemon, "L1")["watched"], interval_s=0.1)
        assert get(daemon, "L1")["suspect"] == told
        os.kill(pid, signal.SIGKILL)
        until(daemon, "L1", "failed")


@pytest.mark.slow
def test_a_ready_server_that_went_deaf_is_suspect(tmp_path: Path) -> None:
    with running_daemon(tmp_path / "store", suspect_after_s=1) as daemon:
        for status in (503, 200):
            port = free_port()
            argv = [sys.executable, "-c", _DEAF, str(port), str(status)]
            start(daemon, argv=argv, cwd=str(tmp_path), engine="sglang", port=port)
        until(daemon, "L1", "ready")
        until(daemon, "L2", "ready")
        wait_until(lambda: get(daemon, "L1").get("suspect"), interval_s=0.1)
        told = get(daemon, "L1")
        assert (told["state"], "failure" in told) == ("ready", False)
        assert (
            "with 5 requests in work; its health check says that it does not work. Look with: py-spy" in told["suspect"]
        )
        assert "suspect" not in get(daemon, "L2")
