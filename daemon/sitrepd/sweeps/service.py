"""Runs sweeps, one at a time: a trial, the next trial, and so on until none is left."""

from __future__ import annotations

import asyncio

from sqlmodel import col, select

from sitrepd.runtime import Runtime
from sitrepd.services import Service
from sitrepd.sweeps.models import Sweep, Trial

_QUIET_S = 30.0
_PAUSE_S = 0.2


class Sweeps(Service):
    """`runtime.live["sweeps"]`; what it does next follows from the rows alone.

    What carries a sweep out is imported with the first one.
    """

    name = "sweeps"

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._secrets: dict[int, dict[str, str]] = {}
        runtime.live["sweeps"] = self

    def remember(self, sweep: int, env: dict[str, str] | None) -> None:
        """The environment of the one who asked, for its secrets; it is never stored."""
        if env:
            self._secrets[sweep] = {**self._secrets.get(sweep, {}), **env}

    async def run(self) -> None:
        await self.runtime.live["launch_service"].restored.wait()
        await self._all()
        async for _ in self.runtime.store.bell.listen(_QUIET_S, "sweep.", "trial."):
            await self._all()
            await asyncio.sleep(_PAUSE_S)

    async def _all(self) -> None:
        """Carry on until there is nothing to do."""
        while (row := await asyncio.to_thread(self._next_sweep)) is not None:
            await self._advance(row)

    def _next_sweep(self) -> Sweep | None:
        """One with a trial under way first, then the oldest that runs, then the oldest that waits for its turn."""
        ours = select(Sweep).where(col(Sweep.plan).is_not(None)).order_by(col(Sweep.id)).limit(1)
        begun = select(Trial.sweep_id).where(col(Trial.state) == "running")
        with self.runtime.store.read() as db:
            for wanted in (col(Sweep.id).in_(begun), col(Sweep.state) == "running", col(Sweep.state) == "planned"):
                found = db.exec(ours.where(wanted)).first()
                if found is not None:
                    return found
        return None

    async def _advance(self, sweep: Sweep) -> None:
        from sitrepd.sweeps.runner import Runner

        await Runner(self.runtime, self._secrets).advance(sweep)
