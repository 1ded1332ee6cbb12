"""Runs the daemon: a Unix socket for this user and a TCP port, one uvicorn server."""

from __future__ import annotations

import asyncio
import errno
import gc
import json
import os
import signal
import socket
import stat
import struct
import sys
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from sitrepd import ANSWERED_BY, __version__
from sitrepd.errors import StoreUnusable
from sitrepd.settings import Settings

_BACKLOG = 1024
_UCRED = struct.Struct("3i")


class PeerCheckedProtocol(HttpToolsProtocol):
    """Drops connections to the Unix socket from processes of other users (root may come in)."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        connection = transport.get_extra_info("socket")
        if connection is not None and connection.family == socket.AF_UNIX and not _is_us(connection):
            transport.abort()
            return
        super().connection_made(transport)


def _is_us(connection: socket.socket) -> bool:
    _pid, uid, _gid = _UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    return uid in (os.getuid(), 0)


class Server(uvicorn.Server):
    """A uvicorn server that also listens on the Unix socket, and ends event streams before it waits for them."""

    def __init__(self, config: uvicorn.Config, settings: Settings, unix: socket.socket, app: Any) -> None:
        super().__init__(config)
        self._settings = settings
        self._unix = unix
        self._app = app

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.should_exit or sockets is None:
            return
        loop = asyncio.get_running_loop()

        def protocol() -> asyncio.Protocol:
            return PeerCheckedProtocol(
                config=self.config, server_state=self.server_state, app_state=self.lifespan.state
            )

        # create_unix_server of Python 3.13 looks for the file at the address, which named a descriptor closed since.
        self.servers.append(await loop.create_server(protocol, sock=self._unix))
        self._announce()
        gc.freeze()  # what is loaded now stays: looking it over again would only hold requests up
        gc.enable()

    def _announce(self) -> None:
        about = {"pid": os.getpid(), "url": self._app.state.url, "version": __version__}
        path = self._settings.data_dir / "daemon.json"
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(about) + "\n")
        partial.replace(path)
        where = f"{self._settings.data_dir} at {self._app.state.url}"
        sys.stderr.write(f"Sitrep {__version__} serves {where}; `sitrep open` opens the dashboard.\n")
        sys.stderr.flush()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Before the store's lock is given up: the next daemon puts its own socket there.
        withdraw(self._settings)
        self._app.state.runtime.store.bell.close()
        await super().shutdown(sockets)


def serve(settings: Settings, *, any_port: bool = False) -> int:
    """Serve until a signal ends it; the exit status of the command. With `any_port` a taken port gives way."""
    tcp = _listen_tcp(settings, any_port)
    from sitrepd.app import create_app
    from sitrepd.logs import log_config

    settings = settings.model_copy(update={"port": tcp.getsockname()[1]})
    app = create_app(settings)
    app.state.url = f"{'https' if settings.tls_certfile else 'http'}://{_printable(settings.host)}:{settings.port}"
    unix = listen_unix(settings.socket_path)
    config = uvicorn.Config(
        app,
        http=PeerCheckedProtocol,
        ws="none",
        loop="asyncio",
        log_config=log_config(settings.log_level),
        log_level=settings.log_level,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        headers=[(ANSWERED_BY, __version__)],
        timeout_graceful_shutdown=3,
        ssl_certfile=settings.tls_certfile,
        ssl_keyfile=settings.tls_keyfile,
    )
    server = Server(config, settings, unix, app)
    # uvicorn raises the signal anew when it has shut down; by itself it would end the process there.
    signal.signal(signal.SIGTERM, _end)
    try:
        server.run(sockets=[tcp])
    except KeyboardInterrupt:
        pass
    finally:
        if not server.started:
            withdraw(settings)
    return 0 if server.started else 1


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def withdraw(settings: Settings) -> None:
    """Remove what says that a daemon serves this store."""
    for path in (settings.socket_path, settings.data_dir / "daemon.json"):
        with suppress(OSError):
            path.unlink()


def _printable(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _listen_tcp(settings: Settings, any_port: bool) -> socket.socket:
    try:
        return _listen(settings.host, settings.port)
    except OSError as error:
        if any_port and error.errno == errno.EADDRINUSE:
            return _listen(settings.host, 0)
        raise StoreUnusable(
            f"{settings.host}:{settings.port} cannot be listened on: {error.strerror}. Choose another port with --port "
            "(0 takes a free one) or SITREP_PORT."
        ) from error


def _listen(host: str, port: int) -> socket.socket:
    """Listening at once: two sockets may be bound to one port, and only the second to listen would be told."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns off Nagle's algorithm only where the protocol is named.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    listener.set_inheritable(False)
    return listener


def listen_unix(path: Path) -> socket.socket:
    """A listening socket at `path`, mode 0600, however long the path is; the store's lock makes it ours."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with suppress(FileNotFoundError):
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    before = os.umask(0o177)
    try:
        # A socket's address holds 107 bytes; through the descriptor any path fits.
        listener.bind(f"/proc/self/fd/{folder}/{path.name}")
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise StoreUnusable(f"The socket {path} cannot be made: {error.strerror}.") from error
    finally:
        os.umask(before)
        os.close(folder)
    return listener
