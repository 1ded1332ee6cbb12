"""What tests of several slices need."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


# What anything may take on a slow machine that does other things too; only a failing test waits it out.
PATIENCE_S = 90.0


def wait_until(condition: Callable[[], T], timeout_s: float = PATIENCE_S, interval_s: float = 0.02) -> T:
    """The first truthy value of the condition; fails the test at the deadline with the last value seen."""
    timeout_s = max(timeout_s, PATIENCE_S)
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= deadline:
            name = getattr(condition, "__qualname__", repr(condition))
            raise AssertionError(f"{name} was still {value!r} after {timeout_s} s")
        time.sleep(interval_s)


def lives(pid: int) -> bool:
    """Whether the process runs; a zombie does not, which stays for ever where process 1 waits for nobody's child."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(") ")[2][:1] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def all_ended(*pids: int) -> bool:
    return not any(lives(pid) for pid in pids)


def free_port() -> int:
    """A TCP port on 127.0.0.1 that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
