"""How tools ask the REST API: within the daemon, without a connection, by the same routes and rules as everybody."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol
from urllib.parse import quote, urlencode

from starlette.types import ASGIApp, Message

API = "/api/v1"
_ERRORS = 400


@dataclass(frozen=True)
class Reply:
    """What was answered; numbers keep their decimals."""

    status: int
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    @property
    def data(self) -> Any:
        return json.loads(self.body, parse_float=Decimal)


class Refused(Exception):
    """What was asked cannot be; `detail` says why, and what would be right."""

    def __init__(self, detail: str, problem: Mapping[str, Any] | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.problem = problem or {}


class Ask(Protocol):
    """One request to the API: Refused where it is answered by a problem, or not at all."""

    async def __call__(
        self, method: str, path: str, told: Any = None, query: Mapping[str, Any] | None = None
    ) -> Reply: ...


@dataclass(frozen=True)
class Within:
    """Asks the application in this process; the doors were passed by whoever called us."""

    app: ASGIApp
    headers: Mapping[str, str]

    async def __call__(self, method: str, path: str, told: Any = None, query: Mapping[str, Any] | None = None) -> Reply:
        body = b"" if told is None else dump(told)
        asked = urlencode({name: value for name, value in (query or {}).items() if value is not None}, doseq=True)
        reply = await send(self.app, method, API + path, body, {**self.headers, **_TYPED}, asked)
        if reply.status >= _ERRORS:
            problem = _problem(reply)
            raise Refused(str(problem.get("detail") or problem.get("title") or f"HTTP {reply.status}"), problem)
        return reply


_TYPED = {"content-type": "application/json"}


def dump(told: Any) -> bytes:
    """JSON in which a Decimal is the number as it was written."""
    import simplejson

    return simplejson.dumps(told, use_decimal=True, allow_nan=False).encode()


def _problem(reply: Reply) -> dict[str, Any]:
    try:
        found = json.loads(reply.body)
    except ValueError:
        return {"detail": reply.text[:300].strip()}
    return found if isinstance(found, dict) else {}


async def send(app: ASGIApp, method: str, path: str, body: bytes, headers: Mapping[str, str], query: str = "") -> Reply:
    """One request to an ASGI application, as one through the Unix socket is."""
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": path, "raw_path": quote(path).encode(), "query_string": query.encode(), "root_path": "",
        "headers": [(name.lower().encode(), value.encode("latin-1", "replace")) for name, value in headers.items()],
        "client": None, "server": ("sitrep", None), "state": {},
    }  # fmt: skip
    told, status, pieces = False, 500, []
    ended = asyncio.Event()

    async def receive() -> Message:
        nonlocal told
        if told:
            await ended.wait()
            return {"type": "http.disconnect"}
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def answer(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        elif message["type"] == "http.response.body":
            pieces.append(message.get("body", b""))
            if not message.get("more_body"):
                ended.set()

    await app(scope, receive, answer)
    return Reply(status, b"".join(pieces))
