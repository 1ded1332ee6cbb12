"""The latest checkpoint at the speed of a plain answer: what a request means is remembered until the next commit."""

from __future__ import annotations

import asyncio
import hashlib
import time
from dataclasses import dataclass
from urllib.parse import parse_qs

from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from sitrepd.checkpoints.budget import parse_budget
from sitrepd.checkpoints.render import FORMATS
from sitrepd.checkpoints.service import checkpoints, latest_number
from sitrepd.errors import InvalidFact
from sitrepd.runtime import Runtime
from sitrepd.sessions import current

# Headers that say what is meant; no others decide on the answer.
_TELLING = frozenset({b"accept", b"x-sitrep-session", b"x-sitrep-conversation", b"x-sitrep-cwd"})
# A folder may become a repository without a commit of ours.
_TRUSTED_S = 5.0
_MOST = 64
_MEDIA = {"application/json": "json", "text/html": "html", "text/markdown": "md", "text/plain": "txt"}
_HERE = "latest"
PATH = "/api/v1/sessions/{fact_session}/checkpoints/latest"
# The session of the path, the query, and the headers that tell.
Key = tuple[str, bytes, tuple[tuple[bytes, bytes], ...]]


@dataclass(frozen=True, slots=True)
class _Known:
    """An answer, and the commit after which it was found."""

    commit: int
    until: float
    answer: Response
    etag: bytes


class Latest:
    """Answers of `GET …/checkpoints/latest`."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._known: dict[Key, _Known] = {}
        self._rendered: dict[tuple[int, str, int | None], Response] = {}

    async def respond(self, scope: Scope) -> Response:
        told: list[tuple[bytes, bytes]] = []
        seen = None
        for name, value in scope["headers"]:
            if name in _TELLING:
                told.append((name, value))
            elif name == b"if-none-match":
                seen = value
        key = (scope["path_params"]["fact_session"], scope["query_string"], tuple(told))
        known = self._known.get(key)
        if known is None or known.commit != self._runtime.store.bell.commits or known.until < time.monotonic():
            known = await self._find(key)
        if seen is not None and _matches(seen, known.etag):
            return not_modified(known.answer)
        return known.answer

    async def _find(self, key: Key) -> _Known:
        session, query, told = key
        headers = {name.decode(): value.decode("utf-8", "replace") for name, value in told}
        asked = {name: values[-1] for name, values in parse_qs(query.decode("latin-1"), keep_blank_values=True).items()}
        form = self.form(asked.get("format"), headers.get("accept", ""), "md") or "md"
        size = self.size(self._runtime, form, asked.get("budget"))
        commit = self._runtime.store.bell.commits
        hint = _hint(session, asked, headers)
        number, latest = await asyncio.to_thread(self._resolve, hint)
        if latest is None:
            latest = (await checkpoints(self._runtime).latest(number)).id or 0
            commit = self._runtime.store.bell.commits
        answer = await self._render(latest, form, size)
        known = _Known(commit, time.monotonic() + _TRUSTED_S, answer, answer.headers["etag"].encode())
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[key] = known
        return known

    def _resolve(self, hint: current.Hint) -> tuple[int, int | None]:
        with self._runtime.store.read() as db:
            number = current.resolve(db, hint)
            return number, latest_number(db, number)

    async def _render(self, number: int, form: str, size: int | None) -> Response:
        found = self._rendered.get((number, form, size))
        if found is None:
            made = checkpoints(self._runtime)
            row = await asyncio.to_thread(made.stored, number)
            found = response(await asyncio.to_thread(made.text, row, form, size), form, f"C{number}")
            if len(self._rendered) >= _MOST:
                self._rendered.clear()
            self._rendered[number, form, size] = found
        return found

    @staticmethod
    def form(told: str | None, accept: str, otherwise: str | None) -> str | None:
        """The format that is asked for: told, else the first that `accept` names and that there is."""
        if told is not None:
            if told not in FORMATS:
                raise InvalidFact(f"format={told!r} is none: use {', '.join(FORMATS)}.")
            return told
        for part in accept.split(","):
            media, *parameters = (word.strip().lower() for word in part.split(";"))
            if media in _MEDIA and "q=0" not in parameters:
                return _MEDIA[media] if otherwise is not None or media != "application/json" else None
        return otherwise

    @staticmethod
    def size(runtime: Runtime, form: str, told: str | None) -> int | None:
        """Characters; where none are told, the standard for reading, and all there is for programs and pages."""
        if told is not None:
            return parse_budget(told)
        return runtime.settings.checkpoint_budget if form in ("md", "txt") else None

    @staticmethod
    def conditional(answer: Response, seen: str | None) -> Response:
        """304 where the caller has these bytes already."""
        if seen is not None and _matches(seen.encode("latin-1", "replace"), answer.headers["etag"].encode()):
            return not_modified(answer)
        return answer


def latest_of(runtime: Runtime) -> Latest:
    """The one of this daemon."""
    found = runtime.live.get(_HERE)
    if not isinstance(found, Latest):
        found = runtime.live[_HERE] = Latest(runtime)
    return found


def fast_route(runtime: Runtime) -> Route:
    """The route without what FastAPI does for each request; it is described by the one that has it."""
    latest = latest_of(runtime)

    class Endpoint:
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            await (await latest.respond(scope))(scope, receive, send)

    return Route(PATH, Endpoint(), methods=["GET"])


def response(text: str, form: str, checkpoint: str) -> Response:
    """The bytes with their ETag; such an answer can be sent any number of times."""
    body = text.encode()
    headers = {
        "ETag": f'"{hashlib.sha256(body).hexdigest()[:32]}"',
        "Cache-Control": "no-cache",
        "Vary": "Accept",
        "Content-Location": f"/api/v1/checkpoints/{checkpoint}",
        "X-Sitrep-Checkpoint": checkpoint,
    }
    if form == "html":
        headers["Content-Security-Policy"] = "default-src 'none'; style-src 'unsafe-inline'"
    return Response(body, headers=headers, media_type=FORMATS[form])


def not_modified(answer: Response) -> Response:
    kept = ("etag", "cache-control", "vary", "content-location", "x-sitrep-checkpoint")
    return Response(status_code=304, headers={name: answer.headers[name] for name in kept})


def _matches(seen: bytes, etag: bytes) -> bool:
    return seen.strip() == b"*" or any(one.strip().removeprefix(b"W/") == etag for one in seen.split(b","))


def _hint(session: str, asked: dict[str, str], headers: dict[str, str]) -> current.Hint:
    """As the headers of every other request are read; the path comes first."""
    if session != "current":
        return current.Hint(session)
    told = asked.get("session")
    if told in (None, "current"):
        told = headers.get("x-sitrep-session")
    host = current.elsewhere(headers.get("x-sitrep-host"))
    return current.Hint(told, headers.get("x-sitrep-conversation"), headers.get("x-sitrep-cwd"), host)
