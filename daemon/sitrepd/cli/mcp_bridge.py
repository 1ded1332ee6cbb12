"""MCP over standard input and output, handed on to the daemon message by message; the SDK is not loaded for it."""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from decimal import Decimal
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any
from urllib.parse import unquote, urlsplit

from sitrepd.cli.client import Unreachable, dump, header_value
from sitrepd.cli.verbs import Cli
from sitrepd.errors import SitrepError

_PATH = "/mcp"
_VERSION = "io.modelcontextprotocol/protocolVersion"
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_FIRST = ("initialize", "server/discover")
_ROOTS = "sitrep-roots"
# A daemon that does not start is not started anew by each call.
_START_AGAIN_S = 60.0
_NEEDS_DAEMON = ("tools/call", "prompts/get", "resources/read")
_ANSWER_S = 60.0
_LAST_S = 30.0
_PARSE_ERROR, _INVALID_REQUEST, _INTERNAL_ERROR = -32700, -32600, -32603
_SAFE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
Write = Callable[[bytes], None]


class Bridge:
    """One client on standard input; each of its requests is a request to the daemon, which may be another each time."""

    def __init__(self, cli: Cli, write: Write) -> None:
        self._cli = cli
        self._write_line = write
        self._lock = threading.Lock()
        self._open: dict[Any, HTTPConnection | None] = {}
        self._threads: set[threading.Thread] = set()
        self._version: str | None = None
        self._client: str | None = None
        self._has_roots = False
        self._root: str | None = None
        self._failure: SitrepError | None = None
        self._start_from = 0.0

    def serve(self, lines: Iterable[bytes]) -> None:
        """Until the client closes its end; what it still waits for is answered."""
        for line in lines:
            if line.strip():
                self._take(line)
        for thread in list(self._threads):
            thread.join(_LAST_S)

    def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line, parse_float=Decimal)
        except (ValueError, RecursionError):
            self._say({"jsonrpc": "2.0", "id": None, "error": {"code": _PARSE_ERROR, "message": "This is no JSON."}})
            return
        if not isinstance(message, dict) or "method" not in message:
            self._take_answer(message)
        elif "id" not in message:
            self._notified(message)
        elif message["method"] in _FIRST:
            self._answer(line, message)
        else:
            self._in_background(line, message)

    def _take_answer(self, message: Any) -> None:
        """An answer of the client: to our question for its folders."""
        if not isinstance(message, dict):
            wrong = {"code": _INVALID_REQUEST, "message": "One message a line is wanted."}
            self._say({"jsonrpc": "2.0", "id": None, "error": wrong})
        elif message.get("id") == _ROOTS and isinstance(message.get("result"), dict):
            self._root = _first_folder(message["result"].get("roots"))

    def _notified(self, message: Mapping[str, Any]) -> None:
        if message["method"] == "notifications/cancelled":
            self._cancel((message.get("params") or {}).get("requestId"))
        elif self._has_roots and message["method"] in ("notifications/initialized", "notifications/roots/list_changed"):
            self._say({"jsonrpc": "2.0", "id": _ROOTS, "method": "roots/list"})

    def _cancel(self, request: Any) -> None:
        with self._lock:
            connection = self._open.pop(request, None)
        if connection is not None and connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)  # closing it would not wake whoever reads from it

    def _in_background(self, line: bytes, message: Mapping[str, Any]) -> None:
        thread = threading.Thread(target=self._answer, args=(line, message), daemon=True)
        self._threads = {one for one in self._threads if one.is_alive()} | {thread}
        thread.start()

    # --- one request ----------------------------------------------------------------------------------------------

    def _answer(self, line: bytes, message: Mapping[str, Any]) -> None:
        number = message["id"]
        with self._lock:
            self._open[number] = None
        try:
            for answer in self._answers(line, message):
                if message["method"] == "initialize":
                    self._agreed(message, answer)
                with self._lock:
                    wanted = number in self._open
                if wanted:
                    self._put(answer)
        finally:
            with self._lock:
                self._open.pop(number, None)

    def _answers(self, line: bytes, message: Mapping[str, Any]) -> Iterator[bytes]:
        headers = self._headers(message)
        try:
            yield from self._of_daemon(self._with_caller(line, message), headers, message)
        except SitrepError as error:
            yield self._alone(line, headers, message, self._lasting(message, error))

    def _lasting(self, message: Mapping[str, Any], error: SitrepError) -> SitrepError:
        """Why there is no daemon: what the last try to start one came to, as long as none is made again."""
        if message["method"] not in _NEEDS_DAEMON:
            return error
        if self._failure is None or time.monotonic() >= self._start_from:
            self._failure, self._start_from = error, time.monotonic() + _START_AGAIN_S
        return self._failure

    def _of_daemon(self, body: bytes, headers: dict[str, str], message: Mapping[str, Any]) -> Iterator[bytes]:
        client = self._cli.client
        client.timeout_s = _patience(message)
        # Clients drop a server that takes long to say what it offers, which is known without a daemon.
        start = message["method"] in _NEEDS_DAEMON and time.monotonic() >= self._start_from
        connection, response = client.open("POST", _PATH, body, headers, start)
        try:
            with self._lock:
                if message["id"] in self._open:
                    self._open[message["id"]] = connection
            kind = response.headers.get_content_type()
            if kind == "text/event-stream":
                yield from _events(response)
            elif kind == "application/json":
                yield response.read()
            else:
                raise Unreachable(_refusal(response))
        except (OSError, HTTPException, ValueError, AttributeError) as error:
            with self._lock:
                cancelled = message["id"] not in self._open
            if not cancelled:
                raise Unreachable(f"the daemon ended its answer: {error}") from error
        finally:
            connection.close()

    def _alone(self, line: bytes, headers: dict[str, str], message: Mapping[str, Any], error: SitrepError) -> bytes:
        """The same, by tools that say why there is nothing."""
        from sitrepd.cli.mcp_alone import answer

        try:
            return answer(self._cli, line, headers, error)
        except Exception as failure:
            told = f"Sitrep's daemon cannot be reached ({error.detail}), and {type(failure).__name__}: {failure}"
            wrong = {"code": _INTERNAL_ERROR, "message": told}
            return dump({"jsonrpc": "2.0", "id": message["id"], "error": wrong})

    def _headers(self, message: Mapping[str, Any]) -> dict[str, str]:
        """What streamable HTTP has of a message in its headers, and where the client is."""
        params = message.get("params") if isinstance(message.get("params"), dict) else {}
        assert isinstance(params, dict)
        version = (params.get("_meta") or {}).get(_VERSION)
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if isinstance(version, str):
            headers |= {"Mcp-Protocol-Version": version, "Mcp-Method": str(message["method"])}
            if name := _NAMED.get(str(message["method"])):
                headers["Mcp-Name"] = _encoded(str(params.get(name, "")))
        elif self._version is not None and message["method"] != "initialize":
            headers["Mcp-Protocol-Version"] = self._version
        folder = self._root and header_value(self._root)
        return headers | {"X-Sitrep-Client": self._client or "mcp"} | ({"X-Sitrep-Cwd": folder} if folder else {})

    def _with_caller(self, line: bytes, message: Mapping[str, Any]) -> bytes:
        """A server is started with the surroundings of this process, which are the client's."""
        params = message.get("params")
        if not (isinstance(params, dict) and params.get("name") == "launch_server" and self._cli.is_local):
            return line
        from sitrepd.cli.launches import is_text
        from sitrepd.launches.caller import caller_context

        around = caller_context()
        environment = {name: value for name, value in around["env"].items() if is_text(name) and is_text(value)}
        meta = {**(params.get("_meta") or {}), "sitrep/caller": {**around, "env": environment}}
        return dump({**message, "params": {**params, "_meta": meta}})

    def _agreed(self, message: Mapping[str, Any], answer: bytes) -> None:
        """What the handshake settled, for the messages after it."""
        params = message.get("params") or {}
        name = (params.get("clientInfo") or {}).get("name")
        self._client = header_value(str(name)[:80]) if name else None
        self._has_roots = "roots" in (params.get("capabilities") or {})
        version = (json.loads(answer).get("result") or {}).get("protocolVersion")
        self._version = str(version) if version else None

    def _say(self, message: Mapping[str, Any]) -> None:
        self._put(dump(message))

    def _put(self, message: bytes) -> None:
        with self._lock:
            self._write_line(b"".join(message.splitlines()) + b"\n")


def _patience(message: Mapping[str, Any]) -> float:
    told = ((message.get("params") or {}).get("arguments") or {}).get("timeout_s", 0)
    waits = float(told) if isinstance(told, int | Decimal) and 0 <= told <= 600 else 0.0
    return _ANSWER_S + waits


def _events(response: HTTPResponse) -> Iterator[bytes]:
    """The messages of a stream, which stand on one line each."""
    for line in response:
        if line.startswith(b"data:") and (data := line[5:].strip()):
            yield data


def _refusal(response: HTTPResponse) -> str:
    """Why a door did not let it in."""
    try:
        told = json.loads(response.read())
        return str(told.get("detail") or told.get("title"))
    except (ValueError, AttributeError):
        return f"the daemon answered with HTTP {response.status}"


def _encoded(value: str) -> str:
    """As a header carries it: what is not plain ASCII by base64, with the mark that says so."""
    if _SAFE.fullmatch(value) and not value.startswith("=?"):
        return value
    return f"=?base64?{base64.b64encode(value.encode('utf-8', 'replace')).decode()}?="


def _first_folder(roots: Any) -> str | None:
    for root in roots if isinstance(roots, list) else ():
        parts = urlsplit(str(root.get("uri"))) if isinstance(root, dict) else urlsplit("")
        if parts.scheme == "file" and parts.path:
            return os.path.normpath(unquote(parts.path))
    return None
