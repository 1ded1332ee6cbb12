"""The bell that rings after each commit."""

from __future__ import annotations

import asyncio

import pytest

from sitrepd.storage.events import Bell


@pytest.mark.parametrize("steps", range(6))
@pytest.mark.parametrize("quiet_s", [None, 5.0])
def test_who_listens_can_be_cancelled_while_it_rings(steps: int, quiet_s: float | None) -> None:
    async def listen(bell: Bell) -> None:
        async for _ in bell.listen(quiet_s):
            pass

    async def main() -> None:
        bell = Bell()
        bell.bind(asyncio.get_running_loop())
        task = asyncio.create_task(listen(bell))
        await asyncio.sleep(0.01)
        bell.ring()
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task], timeout=1)
        assert task.cancelled()

    asyncio.run(main())


def test_a_commit_before_the_first_wait_is_heard() -> None:
    async def main() -> bool:
        bell = Bell()
        bell.bind(asyncio.get_running_loop())
        listener = bell.listen(5)
        bell.ring()
        await asyncio.sleep(0)
        return await anext(aiter(listener))

    assert asyncio.run(main())


def test_quiet_is_told_and_closing_ends() -> None:
    async def main() -> list[bool]:
        bell = Bell()
        bell.bind(asyncio.get_running_loop())
        heard = []
        async for rang in bell.listen(0.02):
            heard.append(rang)
            if len(heard) == 1:
                bell.ring()
            if len(heard) == 2:
                bell.close()
        return heard

    assert asyncio.run(main()) == [False, True]


def test_only_what_is_wanted_wakes() -> None:
    async def main() -> list[str]:
        bell = Bell()
        bell.bind(asyncio.get_running_loop())
        heard: list[str] = []

        async def listen(name: str, *wanted: str) -> None:
            async for rang in bell.listen(None, *wanted):
                assert rang
                heard.append(name)

        tasks = [
            asyncio.create_task(listen("all")),
            asyncio.create_task(listen("launches", "launch.", "claim.")),
            asyncio.create_task(listen("sweeps", "sweep.")),
        ]
        await asyncio.sleep(0)
        for kinds in ((), ("launch.changed", "message.created"), ("session.created",)):
            bell.ring(frozenset(kinds))
            await asyncio.sleep(0.01)
        bell.close()
        await asyncio.gather(*tasks)
        return heard

    assert asyncio.run(main()) == ["all", "all", "launches", "all"]
