"""What tests of several slices need."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], timeout_s: float = 10.0, interval_s: float = 0.02) -> T:
    """The first truthy value of the condition; fails the test at the deadline with the last value seen."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= deadline:
            name = getattr(condition, "__qualname__", repr(condition))
            raise AssertionError(f"{name} was still {value!r} after {timeout_s} s")
        time.sleep(interval_s)


def free_port() -> int:
    """A TCP port on 127.0.0.1 that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
