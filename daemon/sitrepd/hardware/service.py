"""This machine and its GPUs, observed: what they are, what they do, and what changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sitrepd.clock import utc_now
from sitrepd.errors import StoreUnusable
from sitrepd.hardware import hosts, series
from sitrepd.hardware.driver import NO_GPU
from sitrepd.hardware.live import LiveHardware
from sitrepd.hardware.machine import Machine, read_machine
from sitrepd.hardware.sampler import Sampler
from sitrepd.hardware.snapshot import HostSnapshot, SeenGpus, combine, see_gpus, with_gpus
from sitrepd.hardware.worker import NvmlSilent, NvmlWorker
from sitrepd.runtime import Runtime
from sitrepd.services import Service

log = logging.getLogger(__name__)
_LOOK_EVERY_S = 600.0
_FORGET_EVERY_S = 600.0
# Without persistence mode the driver wakes every GPU first, which takes a second or two each.
_OPENING_TAKES = 6
_SILENT = "the NVIDIA driver does not answer"


class Hardware(Service):
    """`runtime.host_id` is set before any later service starts; the driver is asked after that, in its own time."""

    name = "hardware"

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.worker = NvmlWorker()
        self.sampler = Sampler(runtime, self.worker, self.look)
        self._looked = False
        runtime.live["hardware"] = LiveHardware()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        await self._find_host()
        try:
            async with super().running():
                yield
        finally:
            await self._leave()

    async def _find_host(self) -> None:
        runtime, machine = self.runtime, hosts.machine_key()
        with runtime.store.read() as db:
            runtime.host_id = hosts.find_host(db, machine)
        if runtime.host_id is None:
            with suppress(StoreUnusable):
                runtime.host_id = await runtime.store.write_async(
                    lambda db: hosts.make_host(db, runtime.registry, machine)
                )
        self.sampler.show(host_id=runtime.host_id)

    async def run(self) -> None:
        """Look at the machine, then leave the rest to the scheduler."""
        if self.runtime.host_id is None:
            await self._find_host()
        await self.look(_OPENING_TAKES * self.runtime.settings.nvml_timeout_s)
        self._schedule()
        await asyncio.Event().wait()

    def _schedule(self) -> None:
        scheduler = self.runtime.scheduler
        assert scheduler is not None
        keep_s = self.runtime.settings.samples_keep_h * 3600
        shared: dict[str, Any] = {"trigger": "interval", "replace_existing": True, "misfire_grace_time": None}
        now = utc_now()
        # A second instance may start, and returns at once, while the driver keeps the first one waiting.
        scheduler.add_job(
            self.sampler.tick, seconds=self.sampler.tick_s, next_run_time=now, max_instances=2,
            id="hardware.sample", **shared,
        )  # fmt: skip
        scheduler.add_job(self.look, seconds=_LOOK_EVERY_S, id="hardware.look", **shared)
        scheduler.add_job(
            self.forget, seconds=min(_FORGET_EVERY_S, max(1.0, keep_s / 4)), next_run_time=now,
            id="hardware.forget", **shared,
        )  # fmt: skip

    async def _leave(self) -> None:
        """Keeps the last samples; a driver that hangs is not waited for."""
        with suppress(StoreUnusable):
            await self.sampler.store()
        await asyncio.to_thread(self.worker.stop, 1.0)

    # --- looking -------------------------------------------------------------------------------------------------

    async def look(self, timeout_s: float | None = None) -> None:
        """Store what the machine consists of, if that has changed."""
        timeout_s = timeout_s or self.runtime.settings.nvml_timeout_s
        machine = await asyncio.to_thread(read_machine, [self.runtime.settings.data_dir])
        host_id = self.runtime.host_id
        if host_id is None:
            return
        if not self._looked:
            first = hosts.storable(combine(machine, []))
            await self.runtime.store.write_async(lambda db: hosts.fill(db, host_id, first))
        self._looked = True
        snapshot = hosts.storable(await self._snapshot(machine, timeout_s))
        await self.runtime.store.write_async(lambda db: hosts.store_snapshot(db, host_id, snapshot))

    async def _snapshot(self, machine: Machine, timeout_s: float) -> HostSnapshot:
        try:
            gpus = await self.worker.ask(see_gpus, timeout_s)
        except NvmlSilent as silent:
            self.sampler.show(reason=str(silent))
            await self.sampler.tell_trouble(str(silent))
            return await asyncio.to_thread(self._as_before, machine, _SILENT)
        told = {"driver": gpus.driver, "cuda_driver": gpus.cuda_driver, "reason": gpus.reason}
        self.sampler.show(facts=tuple(gpus.facts), **told)
        if gpus.reason not in (None, NO_GPU):
            return await asyncio.to_thread(self._as_before, machine, gpus.reason)
        return with_gpus(machine, gpus)

    def _as_before(self, machine: Machine, reason: str) -> HostSnapshot:
        """GPUs that cannot be asked about are not gone: they stay as they were last seen."""
        with self.runtime.store.read() as db:
            before = hosts.last_snapshot(db, self.runtime.host_id or 0)
        if before is None:
            return combine(machine, [], reason=reason)
        known = SeenGpus(before.gpus, before.topology, before.driver, before.cuda_driver, reason)
        return with_gpus(machine, known)

    # --- forgetting ----------------------------------------------------------------------------------------------

    async def forget(self) -> None:
        """Delete samples that are older than is wanted."""
        before = utc_now() - timedelta(hours=self.runtime.settings.samples_keep_h)
        with suppress(StoreUnusable):
            while old := await asyncio.to_thread(self._oldest, before):
                for host_id, gpu, start in old:
                    part = partial(series.forget, host_id=host_id, gpu=gpu, start=start, before=before)
                    await self.runtime.store.write_async(part)

    def _oldest(self, before: datetime) -> list[tuple[int, int, datetime]]:
        with self.runtime.store.read() as db:
            return series.oldest(db, before)
