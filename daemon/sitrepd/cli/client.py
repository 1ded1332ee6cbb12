"""Finds the daemon and asks it: by SITREP_URL, else by the socket of the store, where one is started if none runs."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from sitrepd import ANSWERED_BY
from sitrepd.cli.connection import ANSWER_TIMEOUT_S, NoTunnel, Target
from sitrepd.errors import SitrepError

API = "/api/v1"


class Unreachable(SitrepError):
    """No daemon answers."""

    title = "The daemon cannot be reached"


class Refused(SitrepError):
    """The daemon answered with a problem, which is kept as it came."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        problem = answer.problem
        super().__init__(str(problem.get("detail") or problem.get("title") or f"HTTP {answer.status}"))


@dataclass(frozen=True)
class Answer:
    """What the daemon answered; `data` keeps the decimals of numbers."""

    status: int
    body: bytes
    media_type: str = ""

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    @cached_property
    def data(self) -> Any:
        return json.loads(self.body, parse_float=Decimal)

    @property
    def problem(self) -> dict[str, Any]:
        try:
            told = json.loads(self.body)
        except ValueError:
            told = None
        return told if isinstance(told, dict) else {"title": f"HTTP {self.status}", "detail": self.text[:300].strip()}


class Client:
    """Speaks to one daemon; `start` is called, once, where nobody listens on the store's socket."""

    def __init__(self, target: Target, headers: Mapping[str, str], start: Callable[[], None] | None = None) -> None:
        self.target = target
        self._headers = dict(headers)
        self._start = start
        self.timeout_s = ANSWER_TIMEOUT_S

    @property
    def headers(self) -> Mapping[str, str]:
        """Who asks, from where, as each request says it."""
        return self._headers

    def forget_session(self) -> None:
        """Ask for the facts of all sessions from now on."""
        self._headers.pop("X-Sitrep-Session", None)

    def get(self, path: str, /, **query: Any) -> Answer:
        return self.request("GET", path, query)

    def post(self, path: str, told: Any = None, /, **query: Any) -> Answer:
        return self.request("POST", path, query, None if told is None else dump(told))

    def put(self, path: str, told: Any) -> Answer:
        return self.request("PUT", path, {}, dump(told))

    def patch(self, path: str, told: Any) -> Answer:
        return self.request("PATCH", path, {}, dump(told))

    def upload(self, path: str, body: bytes, /, **query: Any) -> Answer:
        """Send a file as it is."""
        return self.request("POST", path, query, body, "application/octet-stream")

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any],
        body: bytes | None = None,
        media_type: str = "application/json",
    ) -> Answer:
        """The answer to one request; Refused where it is a problem, Unreachable where none came."""
        told = {name: _plain(value) for name, value in query.items() if value is not None}
        asked = f"?{urlencode(told, doseq=True)}" if told else ""
        address = f"{self.target.base}{API}{quote(path, safe='/')}{asked}"
        headers = self._headers if body is None else self._headers | {"Content-Type": media_type}
        connection = self._connect()
        try:
            connection.request(method, address, body, headers)
            response = self._ours(connection.getresponse())
            answer = Answer(response.status, response.read(), response.headers.get_content_type())
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(self._silent(error)) from error
        finally:
            connection.close()
        if answer.status >= 400:
            raise Refused(answer)
        return answer

    def open(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str], start: bool = True
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """A request beside the API, such as one of MCP; whoever asks reads the answer, and closes."""
        connection = self._connect(start)
        try:
            connection.request(method, self.target.base + path, body, {**self._headers, **headers})
            return connection, self._ours(connection.getresponse())
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise Unreachable(self._silent(error)) from error
        except Unreachable:
            connection.close()
            raise

    def _ours(self, response: http.client.HTTPResponse) -> http.client.HTTPResponse:
        """What anybody else answers is not read: it may be anything, and of any length."""
        if ANSWERED_BY in response.headers:
            return response
        told = f"HTTP {response.status}, {response.headers.get_content_type()}"
        raise Unreachable(
            f"{self.target} is answered by something else than a daemon of Sitrep, or by one of another version "
            f"({told}). Check SITREP_URL, or end that one and run `sitrep serve`."
        )

    def _silent(self, error: Exception) -> str:
        """Why no answer came; behind ssh it is looked for, since ssh takes a connection that leads nowhere."""
        if self.target.box is not None and not isinstance(error, TimeoutError):
            from sitrepd.cli.tunnel import why_silent

            return why_silent(self.target.box)
        return f"{self.target} did not answer: {_why(error)}."

    def _connect(self, start: bool = True) -> http.client.HTTPConnection:
        try:
            return self.target.connect(self.timeout_s)
        except NoTunnel as error:
            raise Unreachable(error.detail) from error
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError) as error:
            if self._start is None or not start:
                raise Unreachable(_nobody(self.target)) from error
        except OSError as error:
            raise Unreachable(f"{self.target} cannot be reached: {_why(error)}.") from error
        self._start()
        try:
            return self.target.connect(self.timeout_s)
        except OSError as error:
            raise Unreachable(f"{self.target} cannot be reached: {_why(error)}.") from error


def dump(told: Any) -> bytes:
    """JSON in which a Decimal is the number as it was typed."""
    import simplejson

    return simplejson.dumps(told, use_decimal=True, allow_nan=False).encode()


def bearer_token(store: Path) -> str | None:
    """SITREP_TOKEN, else the token of the store, else None."""
    told = os.environ.get("SITREP_TOKEN")
    if told:
        return told.strip()
    try:
        return (store / "token").read_text().strip() or None
    except OSError:
        return None


def header_value(text: str) -> str | None:
    """Text as a header carries it, in UTF-8; None where it cannot be carried at all."""
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in text):
        return None
    return text.encode("utf-8", "surrogateescape").decode("latin-1")


def _plain(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _nobody(target: Target) -> str:
    if target.socket_path is None:
        return f"Nobody listens at {target}. Check SITREP_URL, or start the daemon there with `sitrep serve`."
    return f"No daemon runs at {target}. Start one with `sitrep serve`, or leave out --no-start."


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "it took too long"
    if isinstance(error, http.client.IncompleteRead):
        return "its answer broke off"
    if isinstance(error, http.client.HTTPException) and not isinstance(error, OSError):
        return "what came is no HTTP"  # whatever it is, it is not told on
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text[:1].lower() + text[1:]
