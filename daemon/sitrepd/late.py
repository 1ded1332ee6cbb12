"""Routes that are made when they are first asked for: a daemon starts sooner, and stays smaller, without them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fastapi import APIRouter, FastAPI
from starlette.routing import BaseRoute, Match
from starlette.types import Scope

PREFIX = "/api/v1"


class LateRoutes(BaseRoute):
    """Stands in an application's list of routes for those of a slice, and appends them when a path has one of `words`.

    Whoever goes through the list comes to the appended routes too; by itself it matches nothing. Without words, every
    path of the API is asked for.
    """

    def __init__(self, app: FastAPI, make: Callable[[], Sequence[APIRouter]], words: frozenset[str] | None) -> None:
        self._app = app
        self._make = make
        self._words = words
        self._made = False

    def make(self) -> None:
        """Append the routes, once."""
        if self._made:
            return
        self._made = True
        for router in self._make():
            self._app.include_router(router, prefix=PREFIX)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if not self._made and scope["type"] == "http" and self._asked(scope["path"]):
            self.make()
        return Match.NONE, {}

    def _asked(self, path: str) -> bool:
        if not path.startswith(PREFIX):
            return False
        return self._words is None or not self._words.isdisjoint(path.split("/"))


def make_all(app: FastAPI) -> None:
    """Append all routes that are still to come."""
    for route in list(app.router.routes):
        if isinstance(route, LateRoutes):
            route.make()
