"""Keeps the samples small: seals what is not new any more, and drops what is too old."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from datetime import timedelta
from functools import partial

from sitrepd.clock import utc_now
from sitrepd.errors import StoreUnusable
from sitrepd.hardware import sealing
from sitrepd.hardware.quantities import MINUTES, RAW
from sitrepd.runtime import Runtime

log = logging.getLogger(__name__)


class Keeper:
    """One at a time: what is sealed is read before it is written."""

    def __init__(self, runtime: Runtime, host_id: int) -> None:
        self._runtime = runtime
        self._host_id = host_id

    async def seal(self) -> None:
        """Each GPU in a transaction of its own: the writer has other things to do in between."""
        with suppress(StoreUnusable):
            while due := await asyncio.to_thread(self._due):
                for gpu, most in due:
                    sealed = await asyncio.to_thread(self._sealed, gpu, most)
                    if sealed is None:
                        return
                    await self._runtime.store.write_async(partial(sealing.write, sealed=sealed))

    def _due(self) -> list[tuple[int, int]]:
        with self._runtime.store.read() as db:
            return sealing.due(db, self._host_id, utc_now())

    def _sealed(self, gpu: int, most: int) -> sealing.Sealed | None:
        with self._runtime.store.read() as db:
            return sealing.seal(db, self._host_id, gpu, most)

    async def drop(self) -> None:
        """Samples by the second and by the minute that are older than is wanted; hours stay."""
        settings = self._runtime.settings
        for tier, days in ((RAW, settings.samples_keep_d), (MINUTES, settings.sample_minutes_keep_d)):
            before = utc_now() - timedelta(days=days)
            with suppress(StoreUnusable):
                while await self._runtime.store.write_async(partial(sealing.drop, tier=tier, before=before)):
                    pass
