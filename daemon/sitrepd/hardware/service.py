"""This machine and its GPUs, observed: what they are, what they do, and what changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from sitrepd.errors import StoreUnusable
from sitrepd.hardware import hosts
from sitrepd.hardware.live import LiveHardware
from sitrepd.runtime import Runtime
from sitrepd.services import Service

if TYPE_CHECKING:
    from sitrepd.hardware.observer import Observer

# The daemon answers its first request before the driver is touched.
_AFTER_START_S = 0.1


class Hardware(Service):
    """`runtime.host_id` is set before any later service starts; the driver is asked after that, in its own time."""

    name = "hardware"

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._observer: Observer | None = None
        runtime.live["hardware"] = LiveHardware()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """A store that cannot be written yet does not keep the daemon from starting."""
        with suppress(StoreUnusable):
            await self._find_host()
        try:
            async with super().running():
                yield
        finally:
            if self._observer is not None:
                await self._observer.end()

    async def run(self) -> None:
        await asyncio.sleep(_AFTER_START_S)
        host_id = await self._find_host()
        # Imported here, and not in another thread, whose own heap would cost megabytes.
        from sitrepd.hardware.observer import Observer

        self._observer = self._observer or Observer(self.runtime, host_id)
        await self._observer.begin()
        await self._observer.run()

    async def _find_host(self) -> int:
        runtime, machine = self.runtime, hosts.machine_key()
        if runtime.host_id is None:
            with runtime.store.read() as db:
                runtime.host_id = hosts.find_host(db, machine)
        if runtime.host_id is None:
            runtime.host_id = await runtime.store.write_async(lambda db: hosts.make_host(db, runtime.registry, machine))
        runtime.live["hardware"] = replace(runtime.live["hardware"], host_id=runtime.host_id)
        return runtime.host_id
