"""The application: wiring only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from fastapi import FastAPI
from fastapi.routing import APIRoute

from sitrepd import __version__, problems
from sitrepd.doors import Doors
from sitrepd.history.index import keep_in_step
from sitrepd.late import LateRoutes, make_all
from sitrepd.links import Links
from sitrepd.openapi import described
from sitrepd.runtime import Runtime
from sitrepd.settings import Settings
from sitrepd.slices import load_registry
from sitrepd.storage.store import Store


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
    app.add_api_route("/api/v1/health", _health, name="health", tags=["daemon"])
    from sitrepd.system import router as system

    app.include_router(system, prefix="/api/v1")
    for part in runtime.registry.slices:
        words = frozenset(noun.plural for noun in part.nouns)
        app.router.routes.append(LateRoutes(app, part.make_routers, words))
    app.router.routes.append(LateRoutes(app, partial(_the_rest, app), None))
    from sitrepd.dashboard.assets import FOLDER, Assets
    from sitrepd.dashboard.routes import router as dashboard

    app.include_router(dashboard)
    app.openapi = partial(described, app)  # type: ignore[method-assign]
    app.mount("/static", Assets(directory=FOLDER))
    return app


def _the_rest(app: FastAPI) -> tuple[()]:
    make_all(app)
    return ()


async def _health() -> dict[str, str]:
    """Says only that the daemon lives."""
    return {"status": "ok"}


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
