"""Profiles by command line: told, read from files, put side by side."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import typer
from tests.cli.running import Sitrep

from sitrepd.cli import profiles

DATA = Path(__file__).parent.parent / "data" / "profiles"


@contextmanager
def serving(told: dict[str, Any]) -> Iterator[str]:
    """A server whose /server_info answers that."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/server_info" else 404)
            self.end_headers()
            self.wfile.write(json.dumps(told).encode())

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_server_that_does_not_speak_http_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            there, _ = server.accept()
            with there:
                there.recv(65536)
                there.sendall(b"who are you?\r\n\r\n")

        answering = Thread(target=answer)
        answering.start()
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(typer.BadParameter, match=f"{address}/server_info does not answer"):
            profiles._server_info(address)
        answering.join()


@pytest.mark.slow
def test_it_is_printed_and_given_as_json(sitrep: Sitrep) -> None:
    sitrep("init", "s").ok()
    for mean in ("20.5", "18.45"):
        sitrep("profile", "add", "--phase", f"verify:calls=400,mean_ms={mean}").ok()
    lines = sitrep("profile", "diff", "P1", "P2").ok().out.splitlines()
    assert lines[1].split() == ["verify", "100.0", "%", "100.0", "%", "400", "400", "20.5", "18.45", "-10.0", "%"]
    told = sitrep("profile", "diff", "P1", "P2", "--json").json
    assert told["phases"][0]["calls"] == [400, 400]
    assert "P9" in sitrep("profile", "diff", "P1", "P9").refused()


@pytest.mark.slow
def test_a_log_becomes_a_profile(sitrep: Sitrep, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("[EAGLE3_PROFILE] draft=1.5 ms verify=20 ms\n" * 400)
    sitrep("init", "s").ok()
    lines = sitrep("profile", "read", str(log), "--name", "slow").ok().out.splitlines()
    assert lines[:2] == ["P1 stored: 2 phases.", "P1, slow, log"]
    assert [line.split() for line in lines[3:5]] == [
        ["draft", "7.0", "%", "400", "600", "1.5"], ["verify", "93.0", "%", "400", "8000", "20"],
    ]  # fmt: skip
    told = sitrep("profile", "show", "P1", "--json").json
    assert told["phases"][1] == {"name": "verify", "calls": 400, "total_ms": 8000.0, "mean_ms": 20.0}
    log.write_text("nothing")
    for words in (("read", str(log)), ("read", str(log), "--pattern", "("), ("read", str(log), "--pattern", "x")):
        assert sitrep("profile", *words).code != 0
    assert len(sitrep("profile", "list", "--json").json["data"]) == 1


@pytest.mark.slow
def test_a_trace_and_a_server(sitrep: Sitrep) -> None:
    sitrep("init", "s").ok()
    told = sitrep("profile", "read", str(DATA / "torch-2.14-cpu.pt.trace.json.gz")).ok().out
    for text in ("whole\nPHASE", "named on the CPU", "CPU, own time", "aten::addmm", "Nothing ran on a GPU"):
        assert text in told
    assert "PyTorch profiler" in sitrep("profile", "list").ok().out
    with serving({"decode_log_interval": 10, "internal_states": [{"step_time_dict": {"4": [0.005]}}]}) as url:
        assert "decode step, 4 running" in sitrep("profile", "read", url).ok().out
    assert "does not answer" in sitrep("profile", "read", url).err
    diff = sitrep("profile", "diff", "P1", "P2").ok().out
    assert "decode steps" in diff
