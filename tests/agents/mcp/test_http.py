"""MCP at /mcp of a real daemon, by the official SDK in its newest and its legacy revision, and as clients send it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from tests.agents.mcp.speaking import LEGACY, MODERN, VERSIONS, by_http, message, post, refused, said, use
from tests.daemons import Daemon, running_daemon
from tests.helpers import PATIENCE_S

API = "/api/v1"
NAMES = ["get_checkpoint", "record_finding", "record_benchmark", "launch_server", "wait_for", "search", "next_steps"]
READING = ["get_checkpoint", "wait_for", "search"]
both = pytest.mark.parametrize("mode", [MODERN, LEGACY])


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running_daemon(tmp_path_factory.mktemp("mcp") / "store") as found:
        told = {"name": "tuning", "goal": "Beat 88.8 tok/s."}
        found.client.post(f"{API}/sessions", json=told).raise_for_status()
        found.client.post(f"{API}/directives", json={"text": "No hacks that cut precision."}).raise_for_status()
        yield found


@pytest.mark.slow
def test_the_daemon_loads_nothing_of_it_until_it_is_asked_for(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from sitrepd.app import create_app; from sitrepd.settings import load_settings;"
        f"create_app(load_settings(data_dir=pathlib.Path({str(tmp_path)!r}))).state.runtime.store.close();"
        "print([name for name in ('mcp', 'mcp_types', 'httpx2', 'jsonschema', 'cryptography') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@both
def test_it_says_what_it_offers(daemon: Daemon, mode: str) -> None:
    async def talk(client: Client) -> tuple[Any, ...]:
        return (
            client.protocol_version, client.server_info.name, client.instructions, (await client.list_tools()).tools,
            (await client.list_resources()).resources, (await client.list_prompts()).prompts,
        )  # fmt: skip

    version, name, instructions, tools, resources, prompts = by_http(daemon, mode, talk)
    assert version == VERSIONS[mode]
    assert name == "sitrep"
    assert len(instructions) < 4_000
    assert "call get_checkpoint" in instructions
    assert [tool.name for tool in tools] == NAMES
    assert [tool.name for tool in tools if tool.annotations.read_only_hint] == READING
    assert [tool.name for tool in tools if (tool.meta or {}).get("anthropic/alwaysLoad")] == ["get_checkpoint"]
    assert [tool.name for tool in tools if tool.output_schema is not None or len(tool.description) > 330] == []
    assert [str(one.uri) for one in resources] == ["sitrep://checkpoint/latest"]
    assert [one.name for one in prompts] == ["resume"]


@both
def test_the_checkpoint_comes_as_plain_text_by_three_ways(daemon: Daemon, mode: str) -> None:
    async def talk(client: Client) -> list[str]:
        return [
            await use(client, "get_checkpoint"),
            (await client.read_resource("sitrep://checkpoint/latest")).contents[0].text,
            (await client.get_prompt("resume", {"topic": "the GPUs"})).messages[0].content.text,
            await use(client, "get_checkpoint", budget=2000),
            await use(client, "get_checkpoint", budget="brief"),
        ]

    texts = by_http(daemon, mode, talk)
    for text in texts:
        assert text.startswith("Sitrep C")
        assert "No hacks that cut precision." in text
    assert len({text.split("\n")[0] for text in texts}) == 5
    assert texts[2].endswith("Look at: the GPUs")
    assert all(len(text) <= 2000 for text in texts[3:])
    newest = daemon.client.get(f"{API}/deliveries", params={"limit": 5}).json()["data"]
    assert {(one["channel"], one["to"]) for one in newest} == {("mcp", "mcp")}


@both
def test_what_is_recorded_is_a_fact_like_any_other(daemon: Daemon, mode: str) -> None:
    async def talk(client: Client) -> list[str]:
        return [
            await use(client, "record_finding", kind="rejected", title="FP8 KV cache", reason="accept rate halves",
                      evidence="B1"),
            await use(client, "record_benchmark", name="2 steps", baseline=True, config={"steps": 2},
                      metrics={"output_throughput": "94.00 tok/s", "ttft": {"value": 1421.7, "unit": "ms"}, "n": 7}),
            await use(client, "next_steps", add="Benchmark 3 steps", needs="server", order=1),
        ]  # fmt: skip

    finding, benchmark, steps = by_http(daemon, mode, talk)
    told = daemon.client.get(f"{API}/findings/{finding.split()[0]}").json()
    assert (told["reason"], told["evidence"], told["provenance"]) == ("accept rate halves", ["B1"], "told:mcp")
    raw = daemon.client.get(f"{API}/benchmarks/{benchmark.split()[0]}").text
    assert '"value":94.00' in raw.replace(" ", "")
    assert "94.00 tok/s" in benchmark
    assert "1421.7 ms" in benchmark
    step = steps.split()[0]
    assert f"{step}: Benchmark 3 steps (needs a server)" in steps

    async def done(client: Client) -> str:
        return await use(client, "next_steps", done=[step])

    assert f"{step} done." in by_http(daemon, mode, done)
    assert daemon.client.get(f"{API}/next-steps/{step}").json()["state"] == "done"


def test_numbers_keep_the_decimals_that_the_client_wrote(daemon: Daemon) -> None:
    body = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "record_benchmark", "arguments": '
    body += b'{"metrics": {"output_throughput": {"value": 88.80, "unit": "tok/s"}}}}}'
    told = post(daemon.client, body)["result"]["content"][0]["text"]
    assert "output_throughput 88.80 tok/s" in told


@both
def test_a_refusal_says_what_would_be_right(daemon: Daemon, mode: str) -> None:
    async def talk(client: Client) -> list[str]:
        return [
            await refused(client, "search", q="FP8"),
            await refused(client, "record_finding", kind="guess", title="x"),
            await refused(client, "record_benchmark", metrics={"output_throughput": "fast"}),
            await refused(client, "record_benchmark", metrics={}),
            await refused(client, "get_checkpoint", session="elsewhere"),
            await refused(client, "get_checkpoint", budget=5),
            await refused(client, "wait_for", launch="L99"),
            await refused(client, "wait_for", launch="L99/../../sessions"),
            await refused(client, "launch_server"),
            await refused(client, "next_steps", done="N99"),
        ]

    told = by_http(daemon, mode, talk)
    assert "q is unknown, query is missing. Its arguments are query, kind, limit, session." in told[0]
    assert "kind" in told[1]
    assert "rejected" in told[1]
    assert "94.0 tok/s" in told[2]
    assert "output_throughput" in told[3]
    assert "no session has that id or name" in told[4]
    assert "tuning" in told[4]
    assert "budget" in told[5].lower()
    assert "L99" in told[6]
    assert "command" in told[8]
    assert "N99" in told[9]


@both
def test_what_there_is_not_is_an_error_of_the_protocol(daemon: Daemon, mode: str) -> None:
    async def talk(client: Client) -> list[str]:
        said = []
        for ask in (
            client.call_tool("get_status", {}),
            client.read_resource("sitrep://checkpoint/C1"),
            client.get_prompt("summary"),
        ):
            with pytest.raises(MCPError) as error:
                await ask
            said.append(str(error.value))
        return said

    tool, resource, prompt = by_http(daemon, mode, talk)
    assert "get_checkpoint" in tool
    assert "sitrep://checkpoint/latest" in resource
    assert "resume" in prompt


@pytest.mark.slow
@pytest.mark.parametrize("mode", [MODERN, pytest.param(LEGACY, marks=pytest.mark.slow)])
def test_a_wait_shows_progress_and_ends_with_the_server(daemon: Daemon, mode: str, tmp_path: Path) -> None:
    gate, seen = tmp_path / "gate", []

    async def progress(done: float, total: float | None, text: str | None) -> None:
        seen.append((done, total, text))
        gate.touch()

    async def talk(client: Client) -> list[str]:
        command = f"while [ ! -e {gate} ]; do sleep 0.1; done; echo READY; exec sleep 600"
        started = await use(client, "launch_server", argv=["sh", "-c", command], name="slow", ready_pattern="READY",
                            cwd=str(tmp_path), env={"FLAVOUR": "blue"})  # fmt: skip
        launch = started.split()[0]
        over = await use(client, "wait_for", launch=launch, timeout_s=0.2)
        waited = await client.call_tool("wait_for", {"launch": launch, "timeout_s": 600}, progress_callback=progress)
        return [started, over, said(waited)]

    started, over, waited = by_http(daemon, mode, talk)
    launch = started.split()[0]
    try:
        assert f'wait_for(launch="{launch}")' in started
        assert over.startswith(f"{launch} is starting")
        assert "ready was not reached within 0 s. Call wait_for again" in over
        assert waited == f"{launch} is ready."
        assert seen[0][2].startswith(f"{launch} is starting")
        told = daemon.client.get(f"{API}/launches/{launch}").json()
        assert (told["cwd"], told["env"]["FLAVOUR"]) == (str(tmp_path), "blue")
    finally:
        daemon.client.post(f"{API}/launches/{launch}/stop", json={"grace_s": 1, "wait_s": 30})


@pytest.mark.slow
def test_a_client_that_goes_away_ends_its_wait(daemon: Daemon, tmp_path: Path) -> None:
    told = {"argv": ["sleep", "600"], "cwd": str(tmp_path), "engine": "generic"}
    launch = daemon.client.post(f"{API}/launches", json=told).json()["id"]
    meta = {"_meta": {"progressToken": 1}}
    body = message("tools/call", name="wait_for", arguments={"launch": launch, "timeout_s": 600}, **meta)
    with daemon.client.stream(
        "POST", "/mcp", json=body, headers={"Accept": "application/json, text/event-stream"}
    ) as s:
        assert next(line for line in s.iter_lines() if line.startswith("data:"))
    daemon.client.post(f"{API}/launches/{launch}/stop", json={"grace_s": 1, "wait_s": 30}).raise_for_status()


def test_codex_is_understood_by_its_own_words(daemon: Daemon) -> None:
    """Without `initialize` before each message; the conversation is named in the metadata of its turn."""
    other = daemon.client.post(f"{API}/sessions", json={"name": "other", "goal": "Another."}).json()["id"]
    try:
        payload = {"session_id": "01a22f70", "cwd": "/nowhere", "source": "startup", "hook_event_name": "SessionStart"}
        started = daemon.client.post(
            f"{API}/hooks/codex/SessionStart", json=payload, headers={"X-Sitrep-Session": other}
        )
        assert "Sitrep C" in started.text
        hello = {
            "protocolVersion": "2025-06-18", "capabilities": {"elicitation": {"form": {}, "url": {}}},
            "clientInfo": {"name": "codex-mcp-client", "title": "Codex", "version": "0.171.0"},
        }  # fmt: skip
        agent = {"User-Agent": "codex-mcp-client/0.171.0"}
        agreed = post(daemon.client, message("initialize", 0, **hello), **agent)["result"]
        assert agreed["protocolVersion"] == "2025-06-18"
        agent["Mcp-Protocol-Version"] = "2025-06-18"
        noted = daemon.client.post("/mcp", json=message("notifications/initialized", None), headers={**agent, "Accept": "application/json, text/event-stream"})  # fmt: skip
        assert noted.status_code == 202
        meta = {"callId": "call_5c", "x-codex-turn-metadata": {"session_id": "01a22f70", "model": "m"}}
        asked = message("tools/call", 2, name="get_checkpoint", arguments={}, _meta=meta)
        text = post(daemon.client, asked, **agent)["result"]["content"][0]["text"]
        assert f"{other} other" in text.split("\n")[0]
        (newest,) = daemon.client.get(f"{API}/deliveries", params={"limit": 1}).json()["data"]
        assert (newest["to"], newest["conversation"], newest["channel"]) == ("codex", "01a22f70", "mcp")
        unclear = message("tools/call", 3, name="get_checkpoint", arguments={})
        told = post(daemon.client, unclear, **agent)["result"]
        assert told["isError"] is True
        assert "In a tool call, say which: session='S1'." in told["content"][0]["text"]
        by_name = message("tools/call", 4, name="get_checkpoint", arguments={"session": "tuning"})
        assert "S1 tuning" in post(daemon.client, by_name, **agent)["result"]["content"][0]["text"]
        by_header = post(daemon.client, unclear, **agent, **{"X-Sitrep-Session": other})
        assert f"{other} other" in by_header["result"]["content"][0]["text"]
    finally:
        daemon.client.post(f"{API}/sessions/{other}/close").raise_for_status()


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_there_is_no_stream_and_no_session_to_end(daemon: Daemon, method: str) -> None:
    told = daemon.client.request(method, "/mcp", headers={"Accept": "text/event-stream"})
    assert told.status_code == 405
    assert told.headers["allow"] == "POST"


def test_the_doors_are_before_it(daemon: Daemon) -> None:
    ping = message("ping")
    with httpx2.Client(base_url=daemon.url, trust_env=False, timeout=PATIENCE_S) as stranger:
        assert stranger.post("/mcp", json=ping).status_code == 401
        wrong = {"Authorization": "Bearer wrong"}
        assert stranger.post("/mcp", json=ping, headers=wrong).status_code == 401
    assert post(daemon.tcp, ping)["result"] is not None
    assert daemon.tcp.post("/mcp", json=ping, headers={"Host": "evil.example"}).status_code == 421
    assert daemon.tcp.post("/mcp", json=ping, headers={"Origin": "http://evil.example"}).status_code == 403
    assert post(daemon.client, ping)["result"] is not None, "through the Unix socket, no token is wanted"


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"[" * 100_000, b'{"jsonrpc": "2.0"}', b"\xff\xfe\0", b'{"id": 1, "method": 5}', b'"x"']
)
def test_what_is_no_message_is_refused(daemon: Daemon, body: bytes) -> None:
    for headers in ({}, {"Mcp-Protocol-Version": VERSIONS[MODERN]}, {"Mcp-Protocol-Version": "2031-01-01"}):
        accept = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        told = daemon.client.post("/mcp", content=body, headers=accept | headers)
        assert 400 <= told.status_code < 500, told.text
        assert told.json()["error"]["code"] < 0


def test_a_message_that_is_too_long_is_refused(daemon: Daemon) -> None:
    body = b" " * (5 << 20)
    assert daemon.client.post("/mcp", content=body).status_code == 413
    assert daemon.client.post("/mcp", content=iter([body])).status_code == 413


def test_many_at_once(daemon: Daemon) -> None:
    found: list[str] = []

    def record(number: int) -> None:
        told = {"kind": "observation", "title": f"one of many, {number}"}
        answer = post(daemon.client, message("tools/call", number, name="record_finding", arguments=told))
        found.append(answer["result"]["content"][0]["text"].split()[0])

    threads = [threading.Thread(target=record, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 20


def test_a_secret_that_is_told_is_not_stored(daemon: Daemon) -> None:
    told = {"kind": "observation", "title": "the key", "detail": "HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz012345"}
    answer = post(daemon.client, message("tools/call", name="record_finding", arguments=told))
    fact = daemon.client.get(f"{API}/findings/{answer['result']['content'][0]['text'].split()[0]}").text
    assert "hf_abc" not in fact
