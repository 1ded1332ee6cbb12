"""How a job that is being done is asked for its end."""

from __future__ import annotations

import asyncio


class Stopped(Exception):
    """Somebody has asked for its end."""


class Stop:
    """`asked` once somebody has asked for the end of the job, which it notices wherever it waits."""

    def __init__(self, *, asked: bool) -> None:
        self._event = asyncio.Event()
        if asked:
            self._event.set()

    @property
    def asked(self) -> bool:
        return self._event.is_set()

    def ask(self) -> None:
        self._event.set()

    async def wait(self) -> None:
        """Until somebody asks."""
        await self._event.wait()

    async def within(self, seconds: float) -> bool:
        """Wait that long; whether somebody has asked, at once when somebody does."""
        try:
            await asyncio.wait_for(self._event.wait(), seconds)
        except TimeoutError:
            return False
        return True

    async def pause(self, seconds: float) -> None:
        """Wait that long; raises Stopped when somebody asks."""
        if await self.within(seconds):
            raise Stopped
