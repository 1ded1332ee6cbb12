"""The route of `/metrics`; what answers it is loaded by the first scrape."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sitrepd.runtime import Runtime


def metrics_route(runtime: Runtime) -> Route:
    async def metrics(request: Request) -> Response:
        from sitrepd.hardware.exposition import answer

        return await answer(request, runtime)

    return Route("/metrics", metrics, methods=["GET"])
