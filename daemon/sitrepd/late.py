"""Routes that are made when they are first asked for: a daemon starts sooner, and stays smaller, without them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fastapi import APIRouter, FastAPI
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

PREFIX = "/api/v1"
_HANDED = "sitrep.route"


class LateRoutes(BaseRoute):
    """Stands in an application's list of routes for others, which it makes when `asked` says so of a path.

    They are put behind it, where whoever goes through the list comes to them next; by itself it matches nothing.
    """

    def __init__(
        self, app: FastAPI, make: Callable[[], Sequence[APIRouter]], asked: Callable[[str], bool], prefix: str = PREFIX
    ) -> None:
        self._app = app
        self._make = make
        self._asked = asked
        self.is_made = False
        self.prefix = prefix

    def make(self) -> None:
        """Put the routes in their place, once."""
        if self.is_made:
            return
        self.is_made = True
        routes, routers = self._app.router.routes, self._make()
        before = len(routes)
        for router in routers:
            self._app.include_router(router, prefix=self.prefix)
        place = routes.index(self) + 1
        routes[place:] = [*routes[before:], *routes[place:before]]

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if not self.is_made and scope["type"] == "http" and self._asked(scope["path"]):
            self.make()
        return Match.NONE, {}


class TheRest(LateRoutes):
    """Comes after the others, and makes those that no word has asked for.

    They get their places before it, where whoever goes through the list has been already: so it hands them the request.
    """

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if self.is_made or scope["type"] != "http" or not self._asked(scope["path"]):
            return Match.NONE, {}
        self.is_made = True
        make_all(self._app, self.prefix)
        for route in list(self._app.router.routes):
            match, child = route.matches(scope) if route is not self else (Match.NONE, {})
            if match is Match.FULL:
                return match, {**child, _HANDED: route}
        return Match.NONE, {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await scope[_HANDED].handle(scope, receive, send)


def api(words: frozenset[str] | None = None) -> Callable[[str], bool]:
    """Asked for by paths of the API with one of the words; by all of them where none are given."""

    def asked(path: str) -> bool:
        return path.startswith(PREFIX) and (words is None or not words.isdisjoint(path.split("/")))

    return asked


def make_all(app: FastAPI, prefix: str | None = None) -> None:
    """Make all routes that are still to come, or those below a prefix."""
    for route in list(app.router.routes):
        if isinstance(route, LateRoutes) and prefix in (None, route.prefix):
            route.make()
