"""HTTP connections to the daemon, from the standard library: each call of the command line pays for its imports."""

from __future__ import annotations

import http.client
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from sitrepd.errors import SitrepError

if TYPE_CHECKING:
    from sitrepd.cli.tunnel import Box

CONNECT_TIMEOUT_S = 5.0
# Stopping a server takes up to a minute.
ANSWER_TIMEOUT_S = 180.0
_SCHEMES = "http://host:port, https://host:port, unix:///path/to/sitrep.sock, ssh://user@host[:port][/path/to/store]"


class NoTunnel(SitrepError):
    """ssh did not lead to the other machine's daemon; says why and what would help."""

    title = "The other machine cannot be reached"


@dataclass(frozen=True)
class Target:
    """Where a daemon is: the path of its socket, or scheme, host and port with a base path, or a box behind ssh."""

    socket_path: Path | None = None
    scheme: str = "http"
    host: str = "localhost"
    port: int | None = None
    base: str = ""
    box: Box | None = None
    may_ask: bool = False
    """Whether ssh may ask the person at the terminal for a password."""

    def __str__(self) -> str:
        if self.box is not None:
            return str(self.box)
        if self.socket_path is not None:
            return f"the socket {self.socket_path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}{f':{self.port}' if self.port else ''}{self.base}"

    def connect(self, timeout_s: float = ANSWER_TIMEOUT_S) -> http.client.HTTPConnection:
        """A connection that is open and waits so long for an answer; OSError says why it is not."""
        connection: http.client.HTTPConnection
        if self.box is not None:
            connection = http.client.HTTPConnection("localhost", timeout=CONNECT_TIMEOUT_S)
            connection.sock = self._through(self.box)
        elif self.socket_path is not None:
            connection = http.client.HTTPConnection("localhost", timeout=CONNECT_TIMEOUT_S)
            connection.sock = connect_unix(self.socket_path)
        elif self.scheme == "https":
            connection = http.client.HTTPSConnection(self.host, self.port, timeout=CONNECT_TIMEOUT_S)
            connection.connect()
        else:
            connection = http.client.HTTPConnection(self.host, self.port, timeout=CONNECT_TIMEOUT_S)
            connection.connect()
        connection.sock.settimeout(timeout_s)
        return connection

    def _through(self, box: Box) -> socket.socket:
        """A connection to the tunnel's end here, which is opened where there is none."""
        from sitrepd.cli.kept_hooks import tell_later
        from sitrepd.cli.tunnel import open_tunnel

        try:
            return connect_unix(box.socket_path)
        except OSError:
            open_tunnel(box, self.may_ask)
            tell_later(box)
        return connect_unix(box.socket_path)


def parse_url(url: str) -> Target:
    """The target that SITREP_URL names, or SitrepError that lists the forms it may have."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise SitrepError(f"SITREP_URL={url!r}: {error}. It may be {_SCHEMES}.") from error
    if parts.scheme == "unix" and parts.path.startswith("/") and not parts.netloc:
        return Target(socket_path=Path(parts.path))
    if parts.scheme in ("http", "https") and parts.hostname:
        return Target(scheme=parts.scheme, host=parts.hostname, port=port, base=parts.path.rstrip("/"))
    if parts.scheme == "ssh" and parts.hostname and not parts.password:
        return Target(scheme="ssh", host=parts.hostname, port=port, box=_box(parts.netloc, port, parts.path))
    if parts.scheme == "ssh" and parts.password:
        raise SitrepError("SITREP_URL holds a password, which ssh takes from nobody: use a key, and leave it out.")
    raise SitrepError(f"SITREP_URL={url!r} is not understood. It may be {_SCHEMES}.")


def _box(netloc: str, port: int | None, path: str) -> Box:
    """The words that ssh is to be called with; none of them may be read as an option."""
    from sitrepd.cli.tunnel import Box

    destination = netloc.removesuffix(f":{port}").replace("[", "").replace("]", "")
    if destination.startswith("-") or not destination.isprintable() or set(destination) & set(" '\"\\$`"):
        raise SitrepError(f"SITREP_URL: {destination!r} is no name of a machine.")
    return Box(destination, port, unquote(path).rstrip("/") or None)


def connect_unix(path: Path) -> socket.socket:
    """A connection to the socket at `path`, however long the path is."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(CONNECT_TIMEOUT_S)
    try:
        if not hasattr(os, "O_PATH"):
            connection.connect(str(path))
            return connection
        folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
        try:
            # A socket's address holds 107 bytes; through the descriptor any path fits.
            connection.connect(f"/proc/self/fd/{folder}/{path.name}")
        finally:
            os.close(folder)
    except BaseException:
        connection.close()
        raise
    return connection
