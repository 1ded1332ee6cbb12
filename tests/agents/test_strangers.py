"""Something else than a daemon of ours answers where it is looked for: nothing of it goes into an agent's context."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.agents.calling import payload
from tests.agents.plugin import Plugin, needs_node
from tests.agents.scripting import needs_curl, run, said
from tests.helpers import PATIENCE_S

_WORD = "pwned"
_HTML = f"<html><body>{_WORD}</body></html>"
_CONTEXT = {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": _WORD}}
_STRANGE = "what answers in the place of its daemon is none, or one of another version"


def _whole(body: str, kind: str, status: str = "200 OK", length: int | None = None) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length or len(body.encode())}\r\n"
    return f"{head}Location: /x-sitrep:\r\nConnection: close\r\n\r\n{body}".encode()


ANSWERS = {
    "a page": _whole(_HTML, "text/html"),
    "a page that is elsewhere": _whole(_HTML, "text/html", "302 Found"),
    "what an older daemon says": _whole(json.dumps(_CONTEXT), "application/json"),
    "what speaks of our marks": _whole(f"{_WORD}\r\nX-Sitrep: 9\r\n\r\n{_WORD}\ntext/plain; sitrep=hook", "text/plain"),
    "JSON of another shape": _whole(f'["{_WORD}"]', "application/json"),
    "JSON that ends early": _whole(json.dumps(_CONTEXT)[:-9], "application/json", length=500),
    "nothing": _whole("", "text/plain"),
    "ten megabytes": _whole(_WORD * 2_000_000, "text/plain"),
    "ten megabytes without a length": f"HTTP/1.0 200 OK\r\n\r\n{_WORD * 2_000_000}".encode(),
    "no HTTP": f"SSH-2.0-OpenSSH {_WORD}\r\n".encode(),
}


@contextmanager
def stranger(store: Path, answer: bytes) -> Iterator[None]:
    """Listens on the socket of a store, and gives everybody the same answer."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(store / "sitrep.sock"))
        listener.listen(64)

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    threading.Thread(target=_answer, args=(connection, answer), daemon=True).start()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _answer(connection: socket.socket, answer: bytes) -> None:
    with suppress(OSError), connection:
        asked = b""
        while b"\r\n\r\n" not in asked and (piece := connection.recv(65536)):
            asked += piece
        connection.sendall(answer)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass


@pytest.fixture(params=list(ANSWERS))
def store(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    with stranger(tmp_path, ANSWERS[request.param]):
        yield tmp_path


@needs_curl
def test_a_hook_gives_one_honest_line_at_a_start_and_else_nothing(store: Path) -> None:
    for client in ("claude-code", "codex", "gemini"):
        line = said(run("SessionStart", store, client=client))
        assert line.startswith("Sitrep keeps the state of this work, but ")
        assert "\n" not in line
        assert _WORD not in line
    for event in ("UserPromptSubmit", "PreCompact", "BeforeModel", "Stop"):
        assert run(event, store) == ""
    # One that waits would wake the agent with it.
    assert run("Waiting", store) == ""


@needs_curl
def test_a_daemon_of_another_version_is_called_that(tmp_path: Path) -> None:
    with stranger(tmp_path, ANSWERS["what an older daemon says"]):
        assert _STRANGE in said(run("SessionStart", tmp_path))


@needs_node
def test_the_plug_in_carries_one_honest_line(store: Path) -> None:
    plugin = Plugin(store)
    try:
        plugin.says("ses_1", ".")
        (line,) = plugin.system("ses_1")
        assert line.startswith("Sitrep keeps the state of this work, but ")
        assert "\n" not in line
        assert _WORD not in line
        output = plugin.call("experimental.session.compacting", {"sessionID": "ses_1"}, {"context": []})
        assert output == {"context": []}
        plugin.event("session.status", sessionID="ses_1", status={"type": "idle"})
        plugin.event("session.compacted", sessionID="ses_1")
        assert plugin.prompts == []
    finally:
        plugin.end()


def _sitrep(store: Path, *words: str, told: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sitrepd.cli", *words], input=told, capture_output=True, text=True,
        env=os.environ | {"SITREP_DATA_DIR": str(store)}, timeout=PATIENCE_S, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["a page", "what an older daemon says", "ten megabytes without a length", "no HTTP"])
def test_the_program_says_so_and_prints_nothing_of_it(tmp_path: Path, kind: str) -> None:
    with stranger(tmp_path, ANSWERS[kind]):
        done = _sitrep(tmp_path, "hook", "claude-code", "SessionStart", told=json.dumps(payload("SessionStart")))
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        done = _sitrep(tmp_path, "resume")
        assert (done.returncode, done.stdout) == (3, "")
        assert _WORD not in done.stderr
        assert "Traceback" not in done.stderr
        (tmp_path / "latest").mkdir()
        (tmp_path / "latest" / "S1.md").write_text("The last one.\n")
        done = _sitrep(tmp_path, "resume")
        assert done.returncode == 0
        assert "The last one." in done.stdout
        assert _WORD not in done.stdout


@pytest.mark.parametrize("kind", ["a page", "what an older daemon says", "ten megabytes without a length", "no HTTP"])
def test_mcp_offers_its_tools_which_say_so(tmp_path: Path, kind: str) -> None:
    asked = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "codex", "version": "1"}}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "next_steps", "arguments": {}}},
    ]  # fmt: skip
    with stranger(tmp_path, ANSWERS[kind]):
        done = _sitrep(tmp_path, "mcp", told="".join(json.dumps(one) + "\n" for one in asked))
    answers = {one["id"]: one for one in map(json.loads, done.stdout.splitlines())}
    assert "get_checkpoint" in [one["name"] for one in answers[2]["result"]["tools"]]
    assert answers[3]["result"]["isError"] is True
    assert "cannot be reached" in answers[3]["result"]["content"][0]["text"]
    assert _WORD not in done.stdout + done.stderr
