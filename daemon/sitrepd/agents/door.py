"""The route of hooks, matched before all others: a client waits for its answer, also right after the daemon's start."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sitrepd.errors import InvalidFact
from sitrepd.runtime import Runtime

PATH = "/api/v1/hooks/{client}/{event}"
MOST_BYTES = 64 << 20


def hook_route(runtime: Runtime) -> Route:
    """The route without what FastAPI does for each request; it is described by the one that has it."""

    async def call(request: Request) -> Response:
        from sitrepd.agents import hooks
        from sitrepd.routing import get_hint

        told = request.path_params
        body = await body_of(request)
        hint, asked = get_hint(request), request.query_params
        found = await hooks.answer(runtime, told["client"], told["event"], body, hint, asked, request.is_disconnected)
        return Response(found.body(), media_type=found.media_type)

    return Route(PATH, call, methods=["POST"])


async def body_of(request: Request) -> bytes:
    """All of the body; InvalidFact where it is longer than any prompt."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_BYTES:
            raise InvalidFact(f"The payload is longer than {MOST_BYTES} bytes.")
    return bytes(body)
