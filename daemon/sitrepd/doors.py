"""Who may come in: the Unix socket for this user, TCP for whoever holds the token or came by a one-time link."""

from __future__ import annotations

import hmac
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from sitrepd.links import COOKIE, Links
from sitrepd.problems import problem
from sitrepd.settings import Settings

_OPEN = "/api/v1/health"
_LINK = "/open/"
_ASSETS = "/static/"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")


class Doors:
    """ASGI middleware in front of everything else."""

    def __init__(self, app: ASGIApp, settings: Settings, token: str, links: Links) -> None:
        self._app = app
        self._settings = settings
        self._token = token.encode()
        self._links = links
        self._hosts: frozenset[str] = frozenset()
        self._scheme = "https" if settings.tls_certfile else "http"
        self.listens_on(settings.port)

    def listens_on(self, port: int) -> None:
        """Accept the Host names that belong to `port`, and those that the operator named."""
        names = [f"{name}:{port}" for name in (*_LOCAL_NAMES, self._settings.host)]
        plain = [*_LOCAL_NAMES] if port in (80, 443) else []
        self._hosts = frozenset(name.lower() for name in (*names, *plain, *self._settings.allowed_hosts))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or is_unix(scope):
            await self._app(scope, receive, send)
            return
        refusal = self._refuse(scope)
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await refusal(scope, receive, send)

    def _refuse(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "").lower()
        if host not in self._hosts:
            detail = f"Host {host or '(none)'!r} is not a name of this daemon."
            advice = "Set SITREP_ALLOWED_HOSTS when a proxy sends another one."
            return problem(421, "Misdirected request", f"{detail} {advice}")
        origin = headers.get("origin")
        if origin is not None and not self._own_origin(origin):
            return problem(403, "Forbidden", f"Requests from pages of {origin} are refused.")
        path: str = scope["path"]
        if path == _OPEN or path.startswith((_LINK, _ASSETS)):
            return None
        return self._identify(scope, headers, origin)

    def _identify(self, scope: Scope, headers: Headers, origin: str | None) -> Response | None:
        told = headers.get("authorization")
        if told is not None:
            scheme, _, token = told.partition(" ")
            same = hmac.compare_digest(token.strip().encode("utf-8", "replace"), self._token)
            if same and scheme.lower() == "bearer":
                return None
            detail = "The token is wrong: Authorization: Bearer TOKEN, from the file `token` of the store's folder."
            return problem(401, "Unauthorized", detail, {"WWW-Authenticate": "Bearer"})
        cookie = headers.get("cookie")
        if cookie and self._known(cookie):
            return None if scope.get("method") in _SAFE or self._same_page(headers, origin) else _cross_site()
        if "text/html" in headers.get("accept", "") and scope.get("method") == "GET":
            return _ask(self._settings)
        detail = "A token is wanted: Authorization: Bearer TOKEN, from the file `token` of the store's folder."
        return problem(401, "Unauthorized", detail, {"WWW-Authenticate": "Bearer"})

    def _known(self, header: str) -> bool:
        try:
            morsel = SimpleCookie(header).get(COOKIE)
        except CookieError:
            return False
        return morsel is not None and self._links.knows(morsel.value)

    def _own_origin(self, origin: str) -> bool:
        scheme, _, host = origin.lower().partition("://")
        return host in self._hosts and scheme in (self._scheme, "https")

    def _same_page(self, headers: Headers, origin: str | None) -> bool:
        return origin is not None or headers.get("sec-fetch-site") == "same-origin"


def is_unix(scope: Scope) -> bool:
    """Whether the request came through the Unix socket, whose peer was checked when it connected."""
    server = scope.get("server")
    return server is not None and server[1] is None


def _ask(settings: Settings) -> Response:
    from sitrepd.dashboard.pages import message

    text = (
        "Run this on the machine where the daemon runs, and follow the link that it prints. "
        "A link opens once; this browser is then remembered."
    )
    return message("This dashboard opens by a link", text, 401, "sitrep open", settings.templates_dir)


def _cross_site() -> Response:
    return problem(
        403, "Forbidden", "A change made with the dashboard's cookie must come from a page of the dashboard."
    )
