"""The application: wiring only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sitrepd import __version__, problems
from sitrepd.dashboard.assets import FOLDER, Assets
from sitrepd.doors import Doors
from sitrepd.history.index import keep_in_step
from sitrepd.late import PREFIX, LateRoutes, TheRest, api
from sitrepd.links import Links
from sitrepd.runtime import Runtime
from sitrepd.settings import Settings
from sitrepd.slices import load_registry
from sitrepd.storage.store import Store

_HEALTH = f"{PREFIX}/health"
_STATIC = "/static"
_SYSTEM = frozenset({"about", "links", "events", "facts", "import", "export"})


def create_app(settings: Settings) -> FastAPI:
    """The daemon as an ASGI application; its store is opened here and closed by the lifespan."""
    store = Store(settings)
    runtime = Runtime(settings, store, load_registry())
    keep_in_step(store, runtime.registry)
    app = FastAPI(
        title="Sitrep",
        version=__version__,
        summary="The memory of a long GPU-serving session.",
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan,
        generate_unique_id_function=_operation_id,
    )
    app.state.runtime = runtime
    app.state.links = Links(store.token, settings.link_ttl_s)
    problems.install(app)
    app.add_middleware(Doors, settings=settings, token=store.token, links=app.state.links)
    app.router.routes[:0] = [route for part in runtime.registry.slices for route in part.busy(runtime)]
    app.router.routes.append(Route(_HEALTH, _health))
    app.router.routes.append(LateRoutes(app, _system, api(_SYSTEM)))
    for part in runtime.registry.slices:
        words = frozenset(noun.plural for noun in part.nouns)
        app.router.routes.append(LateRoutes(app, part.make_routers, api(words)))
    app.router.routes.append(TheRest(app, tuple, api()))
    app.router.routes.append(LateRoutes(app, _dashboard, _is_page, prefix=""))
    app.openapi = partial(_described, app)  # type: ignore[method-assign]
    app.mount(_STATIC, Assets(directory=FOLDER))
    return app


async def _health(_: Request) -> Response:
    """Without what FastAPI does for each request; `system` has the route that is described."""
    return JSONResponse({"status": "ok"})


def _system() -> Sequence[APIRouter]:
    from sitrepd.system import router

    return (router,)


def _dashboard() -> Sequence[APIRouter]:
    from sitrepd.dashboard.routes import router

    return (router,)


def _is_page(path: str) -> bool:
    return not path.startswith((PREFIX, _STATIC))


def _described(app: FastAPI) -> dict[str, Any]:
    from sitrepd.openapi import described

    return described(app)


def _operation_id(route: APIRoute) -> str:
    return route.name


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    from apscheduler.schedulers.asyncio import AsyncIOScheduler

    runtime: Runtime = app.state.runtime
    runtime.store.bell.bind(asyncio.get_running_loop())
    runtime.scheduler = AsyncIOScheduler(timezone="UTC", job_defaults={"coalesce": True, "max_instances": 1})
    try:
        async with AsyncExitStack() as stack:
            for part in runtime.registry.slices:
                for service in part.services(runtime):
                    await stack.enter_async_context(service.running())
            runtime.scheduler.start()
            stack.callback(runtime.scheduler.shutdown, wait=False)
            yield
    finally:
        runtime.store.bell.close()
        runtime.store.close()
