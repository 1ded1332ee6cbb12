"""A service ends with its block, also when it does not listen to the first cancellation."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from sitrepd.services import Service


class Deaf(Service):
    """Swallows one cancellation, as asyncio.wait_for may."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.cancellations = 0

    async def run(self) -> None:
        while True:
            self.started.set()
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)
            self.cancellations += 1
            if self.cancellations == 2:
                raise asyncio.CancelledError


def test_a_swallowed_cancellation_does_not_hold_the_end_up() -> None:
    async def main() -> int:
        service = Deaf()
        async with service.running():
            await service.started.wait()
        return service.cancellations

    assert asyncio.run(asyncio.wait_for(main(), 10)) == 2


def test_a_service_that_fails_starts_again() -> None:
    class Failing(Service):
        name = "failing"
        pause_after_failure_s = 0.01
        runs = 0
        again: asyncio.Event

        async def run(self) -> None:
            self.runs += 1
            if self.runs < 3:
                raise OSError("gone")
            self.again.set()

    async def main() -> int:
        service = Failing()
        service.again = asyncio.Event()
        async with service.running():
            await asyncio.wait_for(service.again.wait(), 10)
        return service.runs

    assert asyncio.run(main()) == 3
