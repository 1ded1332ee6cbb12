"""Takes GPU samples: never two at a time, never in the event loop, and tells once when a GPU or the driver goes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlmodel import Session

from sitrepd.errors import StoreUnusable
from sitrepd.hardware import newest, owners
from sitrepd.hardware.blocks import TIME_MS
from sitrepd.hardware.driver import NO_GPU
from sitrepd.hardware.gpus import GpuFacts, GpuProcess, GpuSample
from sitrepd.hardware.live import LiveHardware
from sitrepd.hardware.nvml import Nvml
from sitrepd.hardware.worker import NvmlSilent, NvmlWorker
from sitrepd.runtime import Runtime
from sitrepd.storage import events, ids
from sitrepd.storage.types import from_ms

log = logging.getLogger(__name__)
# A daemon that is killed loses no more than this and the moment of writing.
_STORED_EVERY_S = 7.0
_MOST_WAITING = 20_000


@dataclass(frozen=True, slots=True)
class Reading:
    """What one visit to the driver brings; `processes` only when they were asked for."""

    samples: tuple[GpuSample, ...]
    processes: tuple[GpuProcess, ...] | None
    reason: str | None


def read(nvml: Nvml, *, processes: bool) -> Reading:
    samples = tuple(nvml.gpu_samples())
    return Reading(samples, tuple(nvml.gpu_processes()) if processes else None, nvml.reason)


class Sampler:
    """`changed` is awaited when a GPU or the driver came or went."""

    def __init__(
        self, runtime: Runtime, host_id: int, worker: NvmlWorker, changed: Callable[[], Awaitable[None]]
    ) -> None:
        self._runtime = runtime
        self._host_id = host_id
        self._worker = worker
        self._changed = changed
        self._sampled_at = self._listed_at = self._stored_at = float("-inf")
        self._waiting: list[dict[str, Any]] = []
        self._store_fails = False
        self._trouble = False
        self._absent: Mapping[str, str] = {}

    @property
    def live(self) -> LiveHardware:
        live: LiveHardware = self._runtime.live["hardware"]
        return live

    def show(self, **changed: Any) -> None:
        self._runtime.live["hardware"] = replace(self.live, **changed)

    @property
    def tick_s(self) -> float:
        settings = self._runtime.settings
        return min(settings.sample_s, settings.sample_idle_s)

    @property
    def period_s(self) -> float:
        """Of now: a machine without GPUs has nothing that changes quickly."""
        settings = self._runtime.settings
        busy = self._runtime.live.get("launches") and self.live.reason is None
        return settings.sample_s if busy else settings.sample_idle_s

    async def run(self) -> None:
        """A sample at once, then on full seconds (or what a tick is): times that are regular take next to no room.

        A loop of its own takes a tenth of what a scheduler would for each second.
        """
        while True:
            if time.monotonic() - self._sampled_at >= self.period_s - self.tick_s / 2:
                try:
                    await self._sample()
                except Exception:
                    log.exception("a sample of the GPUs failed")
            await asyncio.sleep(self.tick_s - time.time() % self.tick_s)

    async def _sample(self) -> None:
        now = self._sampled_at = time.monotonic()
        listing = now - self._listed_at >= self._runtime.settings.gpu_processes_s - self.tick_s / 2
        try:
            reading = await self._worker.ask(
                lambda nvml: read(nvml, processes=listing), self._runtime.settings.nvml_timeout_s
            )
        except NvmlSilent as silent:
            self.show(reason=str(silent))
            if await self.tell_trouble(str(silent)):
                await self._changed()
            return
        at = from_ms(round(time.time() * 1000 / TIME_MS) * TIME_MS)
        self.show(at=at, samples=reading.samples, reason=reading.reason)
        if reading.processes is not None:
            self._listed_at = now
            await self._list(reading.processes, at)
        await self._tell_changes(reading)
        await self._keep(at, reading)

    async def _list(self, processes: tuple[GpuProcess, ...], at: datetime) -> None:
        owned = await asyncio.to_thread(self._own, processes) if processes else ()
        self.show(processes=tuple(owned), processes_at=at)

    def _own(self, processes: tuple[GpuProcess, ...]) -> Any:
        with self._runtime.store.read() as db:
            roots = owners.roots(db, self._host_id, owners.boot_id())
        return owners.own(processes, roots)

    # --- coming and going ----------------------------------------------------------------------------------------

    async def _tell_changes(self, reading: Reading) -> None:
        """A driver that is gone takes all its GPUs along, which is told once and not for each."""
        if reading.reason not in (None, NO_GPU):
            if reading.samples and await self.tell_trouble(reading.reason or ""):
                await self._changed()
            return
        if self._trouble:
            self._trouble = False
            await self._tell("host.driver_back")
            await self._changed()
        absent = {sample.uuid: sample.reason for sample in reading.samples if sample.reason}
        before, self._absent = self._absent, absent
        if absent.keys() == before.keys():
            return
        by_uuid = {sample.uuid: sample for sample in reading.samples}
        for uuid in absent.keys() - before.keys():
            await self._tell("host.gpu_lost", **self._named(by_uuid[uuid]), reason=absent[uuid])
        for uuid in before.keys() - absent.keys():
            if uuid in by_uuid:
                await self._tell("host.gpu_back", **self._named(by_uuid[uuid]))
        await self._changed()

    def _named(self, sample: GpuSample) -> dict[str, Any]:
        facts = next((known for known in self.live.facts if known.uuid == sample.uuid), GpuFacts(sample.index))
        return {"gpu": sample.index, "uuid": sample.uuid, "name": facts.name}

    async def tell_trouble(self, reason: str) -> bool:
        """Whether it is news that the driver does not answer."""
        if self._trouble:
            return False
        self._trouble = True
        log.warning("GPUs are not observed: %s", reason)
        await self._tell("host.driver_lost", reason=reason)
        return True

    async def _tell(self, kind: str, **data: Any) -> None:
        subject = ids.public_id("H", self._host_id)
        await self._runtime.store.write_async(lambda db: events.record(db, kind, subject, None, **data))

    # --- storing -------------------------------------------------------------------------------------------------

    async def _keep(self, at: datetime, reading: Reading) -> None:
        self._waiting += newest.rows(self._host_id, at, reading.samples)
        if time.monotonic() - self._stored_at >= min(_STORED_EVERY_S, 7 * self.tick_s) - self.tick_s / 2:
            await self.store()

    async def store(self) -> None:
        """Write what waits; while the store cannot be written, the newest samples are kept for later."""
        batch, self._waiting = self._waiting, []
        self._stored_at = time.monotonic()
        if not batch:
            return

        def job(db: Session) -> None:
            newest.add(db, batch)

        try:
            await self._runtime.store.write_async(job)
        except StoreUnusable as error:
            self._waiting = [*batch, *self._waiting][-_MOST_WAITING:]
            if not self._store_fails:
                log.warning("GPU samples wait to be stored: %s", error.detail)
            self._store_fails = True
            return
        self._store_fails = False
