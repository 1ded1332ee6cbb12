"""Follows the process of one run until it has ended, and ends it where it must not go on."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

from sitrepd.benchmarks.running import prepare, rows
from sitrepd.benchmarks.running.flags import asks_port
from sitrepd.benchmarks.running.folder import PRINTED
from sitrepd.benchmarks.running.job import Job, RunFailed, begun_at
from sitrepd.benchmarks.running.models import BenchmarkJob
from sitrepd.benchmarks.running.stopping import Stopped
from sitrepd.clock import utc_now
from sitrepd.launches.launchers.base import Exit, Launched
from sitrepd.launches.launchers.local import LocalLauncher
from sitrepd.storage import ids

_LOOK_S = 0.2
_SERVER_EVERY_S = 1.0
_KEEP_EVERY_S = 5.0
_TIMEOUT_S = 7200.0
_GRACE_S = 5.0
_SERVER_GONE_S = 3.0


class Following:
    """`others` are sentences about benchmarks that ran against the same server meanwhile."""

    def __init__(self, job: Job, row: BenchmarkJob, launched: Launched) -> None:
        self.others: set[str] = set()
        self._job = job
        self._row = row
        self._launched = launched

    async def until_ended(self) -> Exit:
        """It is ended where it was asked to (raises Stopped), takes too long, or its server is gone (RunFailed)."""
        began = begun_at(self._row) or self._launched.started_at
        printed = Path(self._row.folder or "") / PRINTED
        looked_at = kept_at = time.monotonic()
        while True:
            ended = await asyncio.to_thread(self._job.launcher.poll, self._launched)
            await asyncio.to_thread(self._job.progress.look, printed)
            if ended is not None:
                return ended
            if self._job.stop.asked:
                await self._kill()
                raise Stopped
            await self._look_at_time((utc_now() - began).total_seconds())
            if time.monotonic() - looked_at > _SERVER_EVERY_S:
                looked_at = time.monotonic()
                await self._look_at_server()
            if time.monotonic() - kept_at > _KEEP_EVERY_S:
                kept_at = time.monotonic()
                await self._keep_progress()
            await self._job.stop.within(_LOOK_S)

    async def _look_at_time(self, taken_s: float) -> None:
        limit = self._job.asked.timeout_s or _TIMEOUT_S
        if taken_s > limit:
            await self._kill()
            raise RunFailed(f"{self._job.which(self._row)} took longer than {limit:g} s, and was ended.")

    async def _look_at_server(self) -> None:
        launch = self._job.launch(self._row)
        self._look_for_others(launch.port)
        if launch.ended_at is None or (utc_now() - launch.ended_at).total_seconds() < _SERVER_GONE_S:
            return
        await self._kill()
        why = f": {launch.failure}" if launch.failure else ""
        name = ids.public_id("L", launch.id or 0)
        raise RunFailed(f"{name} ended ({launch.state}) while it was measured{why}")

    def _look_for_others(self, port: int | None) -> None:
        """Benchmarks that somebody else runs against the same server."""
        own = str(prepare.benchmarks_dir(self._job.runtime))
        for one in self._job.runtime.live.get("benchmarks_running") or ():
            if port is not None and asks_port(one["argv"], port) and own not in " ".join(one["argv"]):
                self.others.add(f"another benchmark ran against the server meanwhile ({one['name']})")

    async def _keep_progress(self) -> None:
        done, total = self._job.progress.now
        await self._job.runtime.store.write_async(lambda db: rows.progress(db, self._job.number, done, total))

    async def _kill(self) -> None:
        """SIGTERM, and SIGKILL to all that is left of it."""
        await asyncio.to_thread(_end, self._job.launcher, self._launched)


def _end(launcher: LocalLauncher, launched: Launched) -> None:
    launcher.signal(launched, signal.SIGTERM)
    deadline = time.monotonic() + _GRACE_S
    while launcher.poll(launched) is None and time.monotonic() < deadline:
        time.sleep(0.05)
    launcher.kill(launched)
