"""Runs a command as its caller would, shows all that it prints as it comes, and keeps a copy of it."""

from __future__ import annotations

import errno
import os
import pty
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import BinaryIO

_PIECE = 1 << 16
_FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)


@dataclass(frozen=True)
class Outcome:
    """How a command ended; by a signal it has the exit status that a shell gives it."""

    exit_code: int
    duration_ms: int


def run(words: Sequence[str], copy: Path) -> Outcome:
    """Run it to its end; OSError where it cannot be started. In a terminal it has one too."""
    terminal = sys.stdout is not None and sys.stdout.isatty() and sys.stderr.isatty()
    began = time.monotonic()
    with open(copy, "wb", opener=_private) as kept:
        child, sources = _in_terminal(words) if terminal else _in_pipes(words)
        with _forwarding(child):
            _pump(sources, kept)
            status = child.wait()
    return Outcome(status if status >= 0 else 128 - status, round((time.monotonic() - began) * 1000))


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _in_pipes(words: Sequence[str]) -> tuple[subprocess.Popen[bytes], dict[int, int]]:
    child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stderr is not None
    sources = {os.dup(child.stdout.fileno()): 1, os.dup(child.stderr.fileno()): 2}
    child.stdout.close()
    child.stderr.close()
    return child, sources


def _in_terminal(words: Sequence[str]) -> tuple[subprocess.Popen[bytes], dict[int, int]]:
    """Its output goes through a terminal of its own, so that bars and colours are as they would be."""
    ours, theirs = pty.openpty()
    with suppress(OSError, ImportError):
        import termios

        termios.tcsetwinsize(theirs, termios.tcgetwinsize(1))
    try:
        child = subprocess.Popen(words, stdout=theirs, stderr=theirs)
    except OSError:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    return child, {ours: 1}


def _pump(sources: dict[int, int], kept: BinaryIO) -> None:
    """Copy until each source has ended; a reader of ours that has gone away is no reason to stop the command."""
    gone: set[int] = set()
    with selectors.DefaultSelector() as selector:
        for source in sources:
            selector.register(source, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                piece = _read(key.fd)
                if not piece:
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    continue
                kept.write(piece)
                if (to := sources[key.fd]) not in gone and not _write(to, piece):
                    gone.add(to)


def _read(source: int) -> bytes:
    try:
        return os.read(source, _PIECE)
    except OSError as error:
        if error.errno == errno.EIO:  # the other end of a terminal was closed
            return b""
        raise


def _write(to: int, piece: bytes) -> bool:
    try:
        while piece:
            piece = piece[os.write(to, piece) :]
    except OSError:
        return False
    return True


@contextmanager
def _forwarding(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Signals go to the command, whose end is ours; Ctrl-C reaches it by the terminal as well."""

    def forward(number: int, _frame: FrameType | None) -> None:
        if number not in (signal.SIGINT, signal.SIGQUIT) or not sys.stdin.isatty():
            with suppress(OSError):
                child.send_signal(number)

    before = {number: signal.signal(number, forward) for number in _FORWARDED}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
