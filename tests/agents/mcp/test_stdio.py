"""`sitrep mcp`: the same by standard input and output, with a daemon and without one."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest
from mcp.client.client import Client
from mcp.client.session import ClientRequestContext
from mcp_types import ListRootsResult, Root
from tests.agents.mcp.speaking import LEGACY, MODERN, SITREP, VERSIONS, by_stdio, message, refused, use
from tests.daemons import Daemon, running_daemon
from tests.helpers import wait_until

pytestmark = pytest.mark.slow  # each test starts daemons of its own

API = "/api/v1"
both = pytest.mark.parametrize("mode", [MODERN, LEGACY])


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running_daemon(tmp_path_factory.mktemp("mcp") / "store") as found:
        found.client.post(f"{API}/sessions", json={"name": "tuning", "goal": "Beat 88.8."}).raise_for_status()
        yield found


def env(daemon: Daemon, **more: str) -> dict[str, str]:
    return {"SITREP_DATA_DIR": str(daemon.data_dir), **more}


class Process:
    """`sitrep mcp` spoken to line by line."""

    def __init__(self, **env: str) -> None:
        self.process = subprocess.Popen(
            [SITREP, "mcp"], env=os.environ | env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in (self.stdin, self.stdout):
            pipe.close()
        self.process.wait(60)

    @property
    def stdin(self) -> IO[bytes]:
        assert self.process.stdin is not None
        return self.process.stdin

    @property
    def stdout(self) -> IO[bytes]:
        assert self.process.stdout is not None
        return self.process.stdout

    def say(self, told: Any) -> None:
        self.stdin.write(told if isinstance(told, bytes) else json.dumps(told).encode() + b"\n")
        self.stdin.flush()

    def hear(self) -> Any:
        return json.loads(self.stdout.readline())


HELLO = message(
    "initialize",
    0,
    protocolVersion="2025-06-18",
    capabilities={},
    clientInfo={"name": "codex-mcp-client", "version": "1"},
)


@both
def test_it_is_the_daemons(daemon: Daemon, mode: str, tmp_path: Path) -> None:
    async def talk(client: Client) -> tuple[Any, ...]:
        names = [tool.name for tool in (await client.list_tools()).tools]
        text = await use(client, "get_checkpoint")
        wrong = await refused(client, "get_checkpoint", session="größer – 別")
        read = (await client.read_resource("sitrep://checkpoint/latest")).contents[0].text
        prompt = (await client.get_prompt("resume")).messages[0].content.text
        return client.protocol_version, names, text, wrong, read, prompt

    version, names, text, wrong, read, prompt = by_stdio(env(daemon), mode, talk, tmp_path)
    assert version == VERSIONS[mode]
    assert "get_checkpoint" in names
    assert "größer – 別" in wrong
    assert all("S1 tuning" in one.split("\n")[0] for one in (text, read, prompt))


def test_the_environment_says_which_session(daemon: Daemon) -> None:
    other = daemon.client.post(f"{API}/sessions", json={"name": "other", "goal": "g"}).json()["id"]

    async def talk(client: Client) -> str:
        return await use(client, "get_checkpoint")

    try:
        assert f"{other} other" in by_stdio(env(daemon, SITREP_SESSION="other"), MODERN, talk)
    finally:
        daemon.client.post(f"{API}/sessions/{other}/close").raise_for_status()


def test_the_folder_says_which_session_and_what_the_client_calls_its_root_goes_before_it(
    daemon: Daemon, tmp_path: Path
) -> None:
    folders, numbers = [tmp_path / "a", tmp_path / "größe b"], []
    for folder in folders:
        folder.mkdir()
        numbers.append(daemon.client.post(f"{API}/sessions", json={"name": folder.name, "goal": "g"}).json()["id"])
        tied = daemon.client.post(f"{API}/sessions/{numbers[-1]}/folders", json={"path": str(folder)})
        tied.raise_for_status()

    async def talk(client: Client) -> str:
        return await use(client, "get_checkpoint")

    async def roots(_: ClientRequestContext) -> ListRootsResult:
        return ListRootsResult(roots=[Root(uri=folders[1].as_uri())])

    try:
        assert f"{numbers[0]} a" in by_stdio(env(daemon), MODERN, talk, folders[0])

        async def until(client: Client) -> bool:
            # The roots are asked for beside the handshake, and are not waited for.
            for _ in range(200):
                if f"{numbers[1]} " in (await use(client, "get_checkpoint")).split("\n")[0]:
                    return True
            return False

        assert by_stdio(env(daemon), LEGACY, until, folders[0], list_roots_callback=roots)
    finally:
        for number in numbers:
            daemon.client.post(f"{API}/sessions/{number}/close").raise_for_status()


def test_a_server_starts_as_the_client_would_start_it(daemon: Daemon, tmp_path: Path) -> None:
    async def talk(client: Client) -> str:
        argv = ["sh", "-c", "echo $FLAVOUR in $PWD by $$ > seen; exec sleep 600"]
        return await use(client, "launch_server", argv=argv, engine="generic", env={"MORE": "1"})

    launch = by_stdio(env(daemon, FLAVOUR="blue"), LEGACY, talk, tmp_path).split()[0]
    try:
        wait_until(lambda: (tmp_path / "seen").exists() and (tmp_path / "seen").read_text().endswith("\n"))
        assert (tmp_path / "seen").read_text().startswith(f"blue in {tmp_path} by ")
    finally:
        daemon.client.post(f"{API}/launches/{launch}/stop", json={"grace_s": 1, "wait_s": 30})


def test_a_cancelled_wait_is_not_answered_and_holds_nothing_up(daemon: Daemon) -> None:
    told = {"argv": ["sleep", "600"], "engine": "generic", "cwd": "/"}
    launch = daemon.client.post(f"{API}/launches", json=told).json()["id"]
    try:
        with Process(**env(daemon)) as client:
            client.say(HELLO)
            assert client.hear()["result"]["protocolVersion"] == "2025-06-18"
            client.say(message("notifications/initialized", None))
            told = {"launch": launch, "timeout_s": 600}
            client.say(message("tools/call", 1, name="wait_for", arguments=told, _meta={"progressToken": "p"}))
            assert client.hear()["method"] == "notifications/progress"
            client.say(message("ping", 2))
            while (answer := client.hear()).get("method") == "notifications/progress":
                pass
            assert answer["id"] == 2, "a wait holds nothing else up"
            client.say(message("notifications/cancelled", None, requestId=1, reason="AbortError"))
            client.say(message("ping", 3))
            assert [client.hear().get("id")] == [3]
    finally:
        daemon.client.post(f"{API}/launches/{launch}/stop", json={"grace_s": 1, "wait_s": 30})


def test_what_is_no_message_is_said_to_be_none(daemon: Daemon) -> None:
    with Process(**env(daemon)) as client:
        for line, code in ((b"{\n", -32700), (b"[]\n", -32600), (b"\xff\n", -32700), (b"[" * 100_000 + b"\n", -32700)):
            client.say(line)
            answer = client.hear()
            assert (answer["id"], answer["error"]["code"]) == (None, code)
        client.say(b"\n")
        client.say(message("ping", "x"))
        assert client.hear()["id"] == "x"


def test_it_goes_on_with_the_next_daemon(tmp_path: Path) -> None:
    with running_daemon(tmp_path / "store") as own, Process(**env(own)) as client:
        own.client.post(f"{API}/sessions", json={"name": "one", "goal": "g"}).raise_for_status()
        asked = message("tools/call", 1, name="get_checkpoint", arguments={})
        client.say(HELLO)
        client.hear()
        client.say(asked)
        assert "S1 one" in client.hear()["result"]["content"][0]["text"]
        own.restart()
        client.say(asked)
        assert "S1 one" in client.hear()["result"]["content"][0]["text"]


@both
def test_without_a_daemon_the_tools_are_there_and_say_so(tmp_path: Path, mode: str) -> None:
    async def talk(client: Client) -> tuple[Any, ...]:
        names = [tool.name for tool in (await client.list_tools()).tools]
        finding = await refused(client, "record_finding", kind="rejected", title="FP8")
        checkpoint = await refused(client, "get_checkpoint")
        prompt = (await client.get_prompt("resume")).messages[0].content.text
        return names, finding, checkpoint, prompt

    told = {"SITREP_DATA_DIR": str(tmp_path / "store"), "SITREP_NO_START": "1"}
    names, finding, checkpoint, prompt = by_stdio(told, mode, talk)
    assert len(names) == 7
    assert "Sitrep's daemon cannot be reached, so nothing was done: No daemon runs at" in finding
    assert "Sitrep's daemon cannot be reached" in checkpoint
    assert prompt.startswith("Sitrep has no checkpoint to give: ")
    assert not (tmp_path / "store").exists()


def test_without_a_daemon_the_last_checkpoint_that_was_written_is_given(tmp_path: Path) -> None:
    with running_daemon(tmp_path / "store") as own:
        own.client.post(f"{API}/sessions", json={"name": "one", "goal": "g"}).raise_for_status()
        own.client.post(f"{API}/directives", json={"text": "No hacks."}).raise_for_status()
        own.client.post(f"{API}/sessions/current/checkpoints", json={}).raise_for_status()

    async def talk(client: Client) -> str:
        return await use(client, "get_checkpoint")

    text = by_stdio({"SITREP_DATA_DIR": str(tmp_path / "store"), "SITREP_NO_START": "1"}, MODERN, talk)
    assert text.startswith("(The daemon gives none: ")
    assert "No hacks." in text


def test_a_wrong_token_is_told_as_such(daemon: Daemon) -> None:
    async def talk(client: Client) -> str:
        return await refused(client, "get_checkpoint")

    told = by_stdio({"SITREP_URL": daemon.url, "SITREP_TOKEN": "wrong"}, LEGACY, talk)
    assert "The token is wrong" in told


def test_it_starts_the_daemon_that_does_not_run(tmp_path: Path) -> None:
    store = tmp_path / "store"
    told = {"SITREP_DATA_DIR": str(store), "SITREP_PORT": "0", "SITREP_NO_START": "0"}

    async def talk(client: Client) -> str:
        return await refused(client, "get_checkpoint")

    try:
        assert "No session is open" in by_stdio(told, MODERN, talk)
    finally:
        subprocess.run([SITREP, "shutdown"], env=os.environ | told, check=True, capture_output=True, timeout=90)
