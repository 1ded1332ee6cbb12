from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from sitrepd.hardware.nvml import Nvml

T = TypeVar("T")
_Job = tuple[Callable[[Nvml], Any], "Future[Any]"]


class NvmlSilent(Exception):
    """The driver has not answered in time; the text says which call, and for how long."""


class NvmlWorker:
    """Gives Nvml a thread of its own, so that a driver that hangs holds up neither the event loop nor the exit."""

    def __init__(self, open_nvml: Callable[[], Nvml] = Nvml.open) -> None:
        self._open_nvml = open_nvml
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._nvml: Nvml | None = None
        self._busy_since: float | None = None
        self._hanging: Future[Any] | None = None

    async def ask(self, call: Callable[[Nvml], T], timeout_s: float = 5.0) -> T:
        """`await worker.ask(Nvml.gpu_samples)`; raises NvmlSilent, at once while an earlier call is still hanging."""
        if self._hanging is not None and not self._hanging.done():
            raise NvmlSilent(self._complaint())
        self._start()
        job: Future[T] = Future()
        self._jobs.put((call, job))
        try:
            # Not wait_for, which may swallow a cancellation that comes with the answer (until Python 3.12).
            async with asyncio.timeout(timeout_s):
                return await asyncio.wrap_future(job)
        except TimeoutError:
            self._hanging = job if job.running() else self._hanging
            raise NvmlSilent(self._complaint()) from None

    def stop(self, timeout_s: float = 1.0) -> None:
        """Closes NVML where the driver lets us; a thread that hangs is left behind, and dies with the process."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join(timeout_s)
            self._thread = None

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="nvml", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        while (item := self._jobs.get()) is not None:
            call, job = item
            if not job.set_running_or_notify_cancel():
                continue
            self._busy_since = time.monotonic()
            try:
                self._nvml = self._nvml or self._open_nvml()
                job.set_result(call(self._nvml))
            except Exception as error:
                job.set_exception(error)
            finally:
                self._busy_since = None
        if self._nvml is not None:
            self._nvml.close()

    def _complaint(self) -> str:
        call = None if self._nvml is None else self._nvml.call
        since = call.since if call else self._busy_since or time.monotonic()
        what = f" {call.name}" if call else ""
        return f"the NVIDIA driver has not answered{what} for {time.monotonic() - since:.0f} s"
