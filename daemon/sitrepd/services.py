"""Service: one background loop that starts with the daemon and ends with it."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

log = logging.getLogger(__name__)
# The daemon answers its first request before its loops begin to work.
_AFTER_START_S = 0.05


class Service(ABC):
    """A loop of its own; `run` is called again after a pause when it fails."""

    name = "service"
    pause_after_failure_s = 5.0

    @abstractmethod
    async def run(self) -> None:
        """Work until cancelled."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the loop going inside the block; it is cancelled and awaited at its end."""
        task = asyncio.create_task(self._supervise(), name=f"sitrep-{self.name}")
        try:
            yield
        finally:
            while not task.done():
                task.cancel()  # before Python 3.12, asyncio.wait_for may swallow one
                await asyncio.wait([task], timeout=1)

    async def _supervise(self) -> None:
        await asyncio.sleep(_AFTER_START_S)
        while True:
            try:
                await self.run()
                return
            except Exception:
                log.exception("%s failed; it starts again in %.0f s", self.name, self.pause_after_failure_s)
                await asyncio.sleep(self.pause_after_failure_s)
