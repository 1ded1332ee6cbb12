"""The script that hooks call: what it prints, and that it never fails and never waits."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.agents.calling import API, facts, payload
from tests.agents.scripting import needs_curl, patient, run, said
from tests.daemons import Daemon, running_daemon
from tests.helpers import PATIENCE_S, wait_until

pytestmark = needs_curl


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running_daemon(tmp_path_factory.mktemp("hooks") / 'it\'s a "store"') as found:
        found.client.post(f"{API}/sessions", json={"name": "work"}).raise_for_status()
        found.client.post(f"{API}/directives", json={"text": "Never guess."}).raise_for_status()
        yield found


def test_it_prints_what_the_daemon_answers(daemon: Daemon) -> None:
    assert "Never guess." in said(run("SessionStart", daemon.data_dir))
    assert "Never guess." in run("PreCompact", daemon.data_dir, payload("PreCompact", trigger="auto"))
    assert run("Stop", daemon.data_dir, payload("Stop")) == ""


def test_it_goes_by_address_and_token_as_well(daemon: Daemon) -> None:
    token = (daemon.data_dir / "token").read_text().strip()
    by_socket = f"unix://{daemon.data_dir}/sitrep.sock"
    assert "Never guess." in said(run("SessionStart", Path("/none"), SITREP_URL=by_socket))
    assert "Never guess." in said(run("SessionStart", Path("/none"), SITREP_URL=daemon.url, SITREP_TOKEN=token))
    assert "Never guess." in said(run("SessionStart", daemon.data_dir, SITREP_URL=daemon.url, http_proxy="http://0:1"))
    assert "could not answer" in said(run("SessionStart", Path("/none"), SITREP_URL=daemon.url, SITREP_TOKEN="no"))


def test_a_long_prompt_is_kept_whole(daemon: Daemon) -> None:
    words = "0123456789" * 1_000_000
    run("SessionStart", daemon.data_dir)
    assert run("UserPromptSubmit", daemon.data_dir, payload("UserPromptSubmit", prompt=words)) == ""
    found = wait_until(lambda: [one for one in facts(daemon.client, "messages") if one["text"].startswith("0123")])
    path = found[0]["text"].rpartition(" are in ")[2].rstrip("]")
    assert Path(path).read_text() == words
    assert Path(path).stat().st_mode & 0o777 == 0o600
    assert len(found[0]["text"]) < 201_000


@pytest.mark.parametrize(
    "body", [b"", b"\xff\xfe\x00binary", b"[1]", b'{"prompt": "a\\u0000b\\ud800c", "session_id": 7}', b"{" * 100_000]
)
def test_a_payload_that_is_none_does_no_harm(daemon: Daemon, body: bytes) -> None:
    assert run("UserPromptSubmit", daemon.data_dir, body) == ""


def test_what_no_store_can_hold_is_replaced(daemon: Daemon) -> None:
    run("SessionStart", daemon.data_dir, {"session_id": "bin"})
    body = b'{"session_id": "bin", "prompt": "bin \\u0000 \\ud800 \xff end"}'
    assert run("UserPromptSubmit", daemon.data_dir, body) == ""
    wait_until(lambda: "bin � � � end" in [one["text"] for one in facts(daemon.client, "messages")])


def test_without_a_daemon_it_says_one_honest_line_where_a_checkpoint_was_to_go(tmp_path: Path) -> None:
    for client in ("claude-code", "codex", "gemini"):
        line = said(run("SessionStart", tmp_path, client=client))
        assert "its daemon does not run" in line
        assert "\n" not in line
    for event in ("UserPromptSubmit", "PreCompact", "PostCompact", "Stop", "SessionEnd"):
        assert run(event, tmp_path) == ""


def test_a_daemon_that_hangs_is_not_waited_for(tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "sitrep.sock"))
    listener.listen()
    with listener:
        assert "did not answer within a second" in said(run("SessionStart", tmp_path, hasty=True))


def test_what_came_too_late_comes_with_the_next_prompt(daemon: Daemon) -> None:
    """The client has gone when its answer comes, as it does after a second."""
    told = payload("SessionStart", source="startup") | {"session_id": "late"}
    body = json.dumps(told).encode()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(daemon.data_dir / "sitrep.sock"))
        head = (
            f"POST {API}/hooks/claude-code/SessionStart HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        )
        client.sendall(head.encode() + b"\r\n" + body)
    prompt = {"prompt": "Go on.", "session_id": "late"}
    wait_until(
        lambda: "Never guess." in run("UserPromptSubmit", daemon.data_dir, payload("UserPromptSubmit", **prompt))
    )
    assert run("UserPromptSubmit", daemon.data_dir, payload("UserPromptSubmit", **prompt)) == ""


def test_a_socket_that_nobody_listens_on_is_no_daemon(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "sitrep.sock"))
    assert "its daemon does not run" in said(run("SessionStart", tmp_path))


def test_without_curl_it_goes_by_the_program(daemon: Daemon, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sh", "env"):
        (tools / name).symlink_to(shutil.which(name) or name)
    (tools / "sitrep").write_text('#!/bin/sh\nprintf "%s %s" "$2" "$3"\n')
    (tools / "sitrep").chmod(0o755)
    assert run("SessionStart", daemon.data_dir, PATH=str(tools)) == "claude-code SessionStart\n"


@pytest.mark.parametrize("way", ["none", "shut"])
def test_where_the_way_by_ssh_is_not_open_the_program_is_called_in_the_folder_of_the_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    work, tools = tmp_path / "the work", tmp_path / "bin"
    for folder in (work, tools):
        folder.mkdir()
    (tools / "sitrep").write_text('#!/bin/sh\nprintf "%s\\n" "$PWD"; cat\n')
    (tools / "sitrep").chmod(0o755)
    monkeypatch.chdir(work)
    with TemporaryDirectory(prefix="s-") as short:
        (to_box := Path(short, "sitrep-ssh", "box_srv")).mkdir(parents=True)
        if way == "shut":
            with socket.socket(socket.AF_UNIX) as left:
                left.bind(str(to_box / "s"))
        path = f"{tools}:{os.environ['PATH']}"
        printed = run("Stop", tmp_path, b"{}", SITREP_URL="ssh://box/srv", XDG_RUNTIME_DIR=short, PATH=path)
        assert printed == f"{work}\n{{}}\n"
        assert [one.name for one in to_box.iterdir()] == (["s"] if way == "shut" else [])


def test_the_program_does_the_same(daemon: Daemon, tmp_path: Path) -> None:
    import sys

    def hook(store: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-m", "sitrepd.cli", "hook", *words], input=json.dumps(payload("SessionStart")).encode(),
            capture_output=True, env=os.environ | {"SITREP_DATA_DIR": str(store)}, timeout=60,
        )  # fmt: skip

    assert "Never guess." in said(hook(daemon.data_dir, "codex", "SessionStart", "--timeout", "30").stdout.decode())
    done = hook(tmp_path / "none", "codex", "SessionStart")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert not (tmp_path / "none").exists()


def waiting(store: Path, **env: str) -> subprocess.Popen[str]:
    """The hook that the client leaves in the background, called with what it tells at the end of a turn."""
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "SITREP_DATA_DIR": str(store)} | env
    found = subprocess.Popen(
        [patient(), "claude-code", "Waiting"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=environment, text=True,
    )  # fmt: skip
    assert found.stdin is not None
    found.stdin.write(json.dumps(payload("Stop", background_tasks=[], last_assistant_message="é\nx")))
    found.stdin.close()
    found.stdin = None
    return found


@pytest.mark.slow
def test_who_waits_in_the_background_is_woken_with_what_has_happened_and_only_then(tmp_path: Path) -> None:
    with running_daemon(tmp_path / "store") as daemon:
        session = daemon.client.post(f"{API}/sessions", json={"name": "work"}).json()["id"]
        none = waiting(daemon.data_dir)
        assert none.communicate(timeout=PATIENCE_S) == ("", "")
        assert none.returncode == 0, "nothing is on its way"
        daemon.client.post(f"{API}/sweeps", json={"name": "steps", "state": "running"}).raise_for_status()
        told = waiting(daemon.data_dir)
        assert told.communicate(timeout=PATIENCE_S) == ("", "")
        assert told.returncode == 0, "who told a sweep may never tell its end"
        code = "until [ -e go ]; do sleep 0.1; done; exit 3"
        server = {"argv": ["sh", "-c", code], "name": "3 steps", "ready_pattern": "never", "cwd": str(tmp_path)}
        launch = daemon.client.post(f"{API}/launches", json=server).raise_for_status().json()["id"]
        alone = waiting(daemon.data_dir, CLAUDE_CODE_ENTRYPOINT="sdk-cli")
        assert alone.communicate(timeout=PATIENCE_S) == ("", "")
        assert alone.returncode == 0, "without a person before it the client would not end"
        first = waiting(daemon.data_dir)

        def asked() -> int:
            told = daemon.client.get(f"{API}/hooks").json()
            return int(next(one for one in told if one["client"] == "claude-code")["calls"]["waiting"])

        wait_until(lambda: asked() >= 4)
        second = waiting(daemon.data_dir)
        wait_until(lambda: asked() >= 6)
        daemon.restart()
        (tmp_path / "go").touch()
        out, err = second.communicate(timeout=PATIENCE_S)
        assert (second.returncode, err) == (2, "")
        assert out.startswith(f"Sitrep: {launch} 3 steps is failed ({session} work). ")
        first.communicate(timeout=PATIENCE_S)
