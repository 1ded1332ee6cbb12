"""Starts a daemon in the background for a store that none serves; callers at the same time start one together."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sitrepd.cli import conversation
from sitrepd.cli.alive import lives
from sitrepd.cli.client import Unreachable
from sitrepd.cli.connection import connect_unix

START_TIMEOUT_S = 60.0
_LOG_MOST_BYTES = 4 << 20
_ALREADY = "already serves"
# What concerns the caller alone must not become the daemon's.
_CALLERS = ("SITREP_SESSION", *conversation.NAMES, "SITREP_URL", "SITREP_TOKEN", "SITREP_NO_START")


def start_daemon(store: Path, quiet: bool = False) -> None:
    """Return once a daemon listens on the store's socket, or raise Unreachable with what it said."""
    deadline = time.monotonic() + START_TIMEOUT_S
    try:
        store.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _alone(store):
            if _listens(store):
                return
            _await(store, deadline)
    except OSError as error:
        raise Unreachable(
            f"No daemon runs for {store}, and none can be started there: {error.strerror or error}. "
            "Choose another store with --data-dir or SITREP_DATA_DIR."
        ) from error
    if not quiet:
        print(_started(store), file=sys.stderr, flush=True)


@contextmanager
def _alone(store: Path) -> Iterator[None]:
    """One caller at a time starts a daemon; the others wait and find it running."""
    descriptor = os.open(store / "starting.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _spawn(store: Path) -> tuple[subprocess.Popen[bytes], int]:
    """The daemon, in a process session of its own with no descriptor of ours, and where its output begins."""
    path = store / "daemon.log"
    with suppress(FileNotFoundError):
        if path.stat().st_size > _LOG_MOST_BYTES:
            path.replace(path.with_suffix(".log.1"))
    command = [sys.executable, "-P", "-m", "sitrepd.cli", "serve", "--data-dir", str(store), "--any-port"]
    environment = {name: value for name, value in os.environ.items() if name not in _CALLERS}
    with open(path, "ab", opener=lambda name, flags: os.open(name, flags, 0o600)) as log:
        begin = log.tell()
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=store,
            start_new_session=True, close_fds=True,
        )  # fmt: skip
    return child, begin


def _await(store: Path, deadline: float) -> None:
    child, said_from = _spawn(store)
    while time.monotonic() < deadline:
        if _listens(store):
            return
        if child.poll() is not None:
            words = _last_words(store, said_from)
            if _ALREADY not in words:
                raise Unreachable(f"The daemon did not start: {words}")
            # Another daemon holds the store: it is still starting, or it is ending and leaves its place to us.
            if not _is_held(store):
                child, said_from = _spawn(store)
        time.sleep(0.02)
    raise Unreachable(
        f"A daemon for {store} was started but did not listen within {START_TIMEOUT_S:.0f} s. "
        f"Its output is in {store / 'daemon.log'}."
    )


def _listens(store: Path) -> bool:
    """Whether somebody answers on the socket; it accepts before it answers, so wait for an answer."""
    try:
        connection = connect_unix(store / "sitrep.sock")
    except OSError:
        return False
    with connection:
        connection.settimeout(START_TIMEOUT_S)
        try:
            connection.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return connection.recv(12).startswith(b"HTTP/1.1 200")
        except OSError:
            return False


def _is_held(store: Path) -> bool:
    """Whether the process that last took the store's lock lives."""
    try:
        return lives(int((store / "lock").read_text()))
    except (OSError, ValueError):
        return False


def _last_words(store: Path, said_from: int) -> str:
    with open(store / "daemon.log", "rb") as log:
        log.seek(said_from)
        said = log.read()[-4000:].decode(errors="replace").strip().splitlines()
    if not said:
        return "it ended without a word."
    errors = [line.removeprefix("Error: ") for line in said if line.startswith("Error: ")]
    return errors[-1] if errors else f"{said[-1]} (more in {store / 'daemon.log'})"


def _started(store: Path) -> str:
    try:
        about = json.loads((store / "daemon.json").read_text())
        return f"Started the Sitrep daemon (pid {about['pid']}) for {store} at {about['url']}."
    except (OSError, ValueError, KeyError):
        return f"Started the Sitrep daemon for {store}."
