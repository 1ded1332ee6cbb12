"""MCP as clients speak it: by the official SDK, and message by message as Codex and opencode were seen to do."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx2
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from tests.daemons import Daemon
from tests.helpers import PATIENCE_S

T = TypeVar("T")
ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
SITREP = str(Path(sys.executable).with_name("sitrep"))
# "auto" asks `server/discover` first, as the newest clients do.
MODERN, LEGACY = "auto", "legacy"
VERSIONS = {MODERN: "2026-07-28", LEGACY: "2025-11-25"}
Talk = Callable[[Client], Awaitable[T]]


def by_http(daemon: Daemon, mode: str, talk: Talk[T], headers: dict[str, str] | None = None, **more: Any) -> T:
    """What comes of a conversation at /mcp, with the token."""
    token = (daemon.data_dir / "token").read_text().strip()

    async def run() -> T:
        told = {"Authorization": f"Bearer {token}", **(headers or {})}
        async with (
            httpx2.AsyncClient(headers=told, trust_env=False, timeout=PATIENCE_S) as http,
            Client(streamable_http_client(f"{daemon.url}/mcp", http_client=http), mode=mode, **more) as client,
        ):
            return await talk(client)

    return asyncio.run(asyncio.wait_for(run(), PATIENCE_S))


def by_stdio(env: dict[str, str], mode: str, talk: Talk[T], cwd: Path | None = None, **more: Any) -> T:
    """What comes of a conversation with `sitrep mcp`."""
    server = StdioServerParameters(command=SITREP, args=["mcp"], env={**os.environ, **env}, cwd=cwd)

    async def run() -> T:
        async with Client(server, mode=mode, **more) as client:
            return await talk(client)

    return asyncio.run(asyncio.wait_for(run(), PATIENCE_S))


async def use(client: Client, tool: str, **told: Any) -> str:
    """The text of a tool that is not refused."""
    found = await client.call_tool(tool, told)
    text = said(found)
    assert not found.is_error, text
    return text


async def refused(client: Client, tool: str, **told: Any) -> str:
    found = await client.call_tool(tool, told)
    assert found.is_error
    return said(found)


def said(found: Any) -> str:
    """Plain text, and nothing beside it."""
    assert found.structured_content is None
    (part,) = found.content
    text: str = part.text
    return text


def message(method: str, number: int | None = 1, **params: Any) -> dict[str, Any]:
    head: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    return head | ({} if number is None else {"id": number}) | ({"params": params} if params else {})


def post(client: httpx2.Client, told: Any, **headers: str) -> Any:
    """The answer to one message, from JSON or from the stream."""
    body = told if isinstance(told, bytes) else json.dumps(told).encode()
    answer = client.post("/mcp", content=body, headers={**ACCEPT, **headers})
    assert answer.status_code == 200, answer.text
    if answer.headers["content-type"].startswith("text/event-stream"):
        (data,) = [line[5:] for line in answer.text.splitlines() if line.startswith("data:")]
        return json.loads(data)
    return answer.json()
