"""MCP where no daemon answers: the same tools, each of which says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from sitrepd.agents.mcp.ask import Ask, Reply, send
from sitrepd.agents.mcp.door import PATH
from sitrepd.agents.mcp.server import make_server
from sitrepd.agents.mcp.tool import Use


async def answer(body: bytes, headers: Mapping[str, str], ask: Ask) -> Reply:
    """What the daemon would answer to a message, if `ask` answered for its API."""

    def use_of(_: Any, told: dict[str, Any]) -> Use:
        return Use(told, ask)

    manager = StreamableHTTPSessionManager(make_server(use_of), stateless=True, json_response=True)
    async with manager.run():
        return await send(manager.handle_request, "POST", PATH, body, headers)
