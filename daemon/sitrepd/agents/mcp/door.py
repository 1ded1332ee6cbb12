"""The route of MCP: `/mcp`, streamable HTTP without sessions. The SDK is loaded when it is first asked for."""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sitrepd.errors import StoreUnusable
from sitrepd.problems import problem
from sitrepd.runtime import Runtime
from sitrepd.services import Service

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

PATH = "/mcp"
MESSAGE = "sitrep.mcp.message"
MOST_BYTES = 4 << 20
_HERE = "mcp"
_PATIENCE_S = 60.0


class Mcp(Service):
    """Serves MCP from the first request for it on; until then nothing of it is loaded."""

    name = "mcp"

    def __init__(self) -> None:
        self._wanted = asyncio.Event()
        self._ready = asyncio.Event()
        self._manager: StreamableHTTPSessionManager | None = None

    async def run(self) -> None:
        await self._wanted.wait()
        manager = await asyncio.to_thread(_make)
        try:
            async with manager.run():
                self._manager = manager
                self._ready.set()
                await asyncio.Event().wait()
        finally:
            self._ready.clear()
            self._manager = None

    async def manager(self) -> StreamableHTTPSessionManager:
        self._wanted.set()
        await asyncio.wait_for(self._ready.wait(), _PATIENCE_S)
        if self._manager is None:
            raise StoreUnusable("The daemon is ending.")
        return self._manager


def _make() -> StreamableHTTPSessionManager:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from sitrepd.agents.mcp.server import make_server

    return StreamableHTTPSessionManager(make_server(_use), stateless=True, max_request_body_size=MOST_BYTES)


def _use(ctx: Any, told: dict[str, Any]) -> Any:
    from sitrepd.agents.mcp.ask import Within
    from sitrepd.agents.mcp.tool import Use
    from sitrepd.agents.mcp.who import who

    request: Request = ctx.request
    message = request.scope.get(MESSAGE)
    found = who(request.headers, message)

    async def report(seconds: float, text: str) -> None:
        await ctx.session.report_progress(seconds, None, text)

    # The arguments as they were written: the SDK reads their numbers as floats.
    written = ((message or {}).get("params") or {}).get("arguments") if isinstance(message, dict) else None
    ask = Within(request.scope["app"], {**found.hint, "x-sitrep-client": found.client})
    return Use(
        told=written if isinstance(written, dict) else told,
        ask=ask,
        client=found.client,
        cwd=found.cwd,
        caller=found.caller,
        report=report,
    )


class McpDoor:
    """An ASGI application; a class, since Starlette takes a function for one that wants a Request."""

    def __init__(self, served: Mcp) -> None:
        self._served = served

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            # No stream of the server's own is offered, and there are no sessions to end.
            detail = f"{scope['method']} {PATH}: MCP is spoken here by POST alone."
            await problem(405, "Method not allowed", detail, {"Allow": "POST"})(scope, receive, send)
            return
        body = await _body(scope, receive)
        if body is None:
            await Response(status_code=413)(scope, receive, send)
            return
        manager = await self._served.manager()
        await manager.handle_request({**scope, MESSAGE: _parsed(body)}, _again(body, receive), send)


async def _body(scope: Scope, receive: Receive) -> bytes | None:
    """All of it; None where it is too long."""
    if (length := Headers(scope=scope).get("content-length", "")).isdigit() and int(length) > MOST_BYTES:
        return None
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > MOST_BYTES:
            return None
        if message["type"] == "http.disconnect" or not message.get("more_body"):
            return bytes(body)


def _again(body: bytes, receive: Receive) -> Receive:
    """The body once more, for the SDK, and then whatever comes."""
    told = False

    async def replay() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body, parse_float=Decimal)
    except (ValueError, RecursionError):
        return None


def served(runtime: Runtime) -> Mcp:
    """The one of this daemon."""
    found = runtime.live.get(_HERE)
    if not isinstance(found, Mcp):
        found = runtime.live[_HERE] = Mcp()
    return found


def mcp_route(runtime: Runtime) -> Route:
    door: ASGIApp = McpDoor(served(runtime))
    return Route(PATH, door)
