"""Looks at this machine and its GPUs on a schedule, and keeps what it sees."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from sitrepd.clock import utc_now
from sitrepd.errors import StoreUnusable
from sitrepd.hardware import snapshots
from sitrepd.hardware.driver import NO_GPU
from sitrepd.hardware.keeping import Keeper
from sitrepd.hardware.kernel_log import KernelLog
from sitrepd.hardware.machine import Machine, read_machine
from sitrepd.hardware.modelfiles import model_paths
from sitrepd.hardware.sampler import Sampler
from sitrepd.hardware.snapshot import HostSnapshot, SeenGpus, combine, see_gpus, with_gpus
from sitrepd.hardware.worker import NvmlSilent, NvmlWorker
from sitrepd.runtime import Runtime

if TYPE_CHECKING:
    from sitrepd.hardware.watch import Watch

_LOOK_EVERY_S = 600.0
_DOUBT_EVERY_S = 10.0
_SEAL_EVERY_S = 300.0
_DROP_EVERY_S = 3600.0
# Without persistence mode the driver wakes every GPU first, which takes a second or two each.
_OPENING_TAKES = 6
_SILENT = "the NVIDIA driver does not answer"


class Observer:
    """Made when the daemon serves already: what it imports takes a tenth of a second."""

    def __init__(self, runtime: Runtime, host_id: int) -> None:
        self.runtime = runtime
        self.host_id = host_id
        self.worker = NvmlWorker()
        self.keeper = Keeper(runtime, host_id)
        self.sampler = Sampler(runtime, host_id, self.worker, self.look)
        self._began = utc_now()
        self._watch: Watch | None = None

    async def begin(self) -> None:
        """Look at once, then leave to the scheduler what is seldom."""
        await self._fill()
        await self.look(_OPENING_TAKES * self.runtime.settings.nvml_timeout_s)
        self._schedule()

    def _schedule(self) -> None:
        scheduler = self.runtime.scheduler
        assert scheduler is not None
        shared: dict[str, Any] = {"trigger": "interval", "replace_existing": True, "misfire_grace_time": None}
        now = utc_now()
        scheduler.add_job(self.look, seconds=_LOOK_EVERY_S, id="hardware.look", **shared)
        scheduler.add_job(
            self.doubt, seconds=min(_DOUBT_EVERY_S, 10 * self.sampler.tick_s), id="hardware.watch", **shared
        )
        scheduler.add_job(self.keeper.seal, seconds=_SEAL_EVERY_S, next_run_time=now, id="hardware.seal", **shared)
        scheduler.add_job(self.keeper.drop, seconds=_DROP_EVERY_S, next_run_time=now, id="hardware.drop", **shared)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.sampler.run())
            tasks.create_task(KernelLog(self.runtime, self.host_id).run())

    async def doubt(self) -> None:
        """Whether something is wrong with the GPUs; a machine that has none pays nothing for the question."""
        if not self.sampler.live.facts:
            return
        from sitrepd.hardware.watch import Watch

        self._watch = self._watch or Watch(self.runtime, self.host_id, self._began)
        await self._watch.tick()

    async def end(self) -> None:
        """Keeps the last samples; a driver that hangs is not waited for."""
        with suppress(StoreUnusable):
            await self.sampler.store()
        await asyncio.to_thread(self.worker.stop, 1.0)

    # --- looking -------------------------------------------------------------------------------------------------

    async def look(self, timeout_s: float | None = None) -> None:
        """Store what the machine consists of, if that has changed."""
        timeout_s = timeout_s or self.runtime.settings.nvml_timeout_s
        machine = await asyncio.to_thread(self._machine)
        snapshot = snapshots.storable(await self._snapshot(machine, timeout_s))
        await self.runtime.store.write_async(partial(snapshots.store, host_id=self.host_id, snapshot=snapshot))

    async def _fill(self) -> None:
        """A new machine gets its columns while the driver is still being opened."""
        machine = await asyncio.to_thread(self._machine)
        first = snapshots.storable(combine(machine, []))
        await self.runtime.store.write_async(partial(snapshots.fill, host_id=self.host_id, snapshot=first))

    def _machine(self) -> Machine:
        with self.runtime.store.read() as db:
            models = model_paths(db, self.host_id)
        return read_machine(models, besides=[self.runtime.settings.data_dir])

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
            before = snapshots.last(db, self.host_id)
        if before is None:
            return combine(machine, [], reason=reason)
        known = SeenGpus(before.gpus, before.topology, before.driver, before.cuda_driver, reason, before.peers)
        return with_gpus(machine, known)
