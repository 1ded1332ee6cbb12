"""Work that must not be felt by the server that is loading, nor hold up the end of the daemon."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")
_LOWEST = 19


async def run_nicely(call: Callable[[], T]) -> T:
    """In a thread of its own at the lowest priority, which on Linux its child processes inherit."""
    future: Future[T] = Future()

    def work() -> None:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST)
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, name="sitrep-stack", daemon=True).start()
    return await asyncio.wrap_future(future)
