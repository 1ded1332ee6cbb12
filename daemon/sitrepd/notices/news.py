"""What is waited for, as it happens in one session: the same for `sitrep wait`, for agents and for whoever asks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from sqlmodel import Session, col, select

from sitrepd.launches.states import LOADING
from sitrepd.notices import notes
from sitrepd.notices.models import Notice
from sitrepd.runtime import Runtime
from sitrepd.slices import Registry
from sitrepd.storage import events

# What follows at once is told with it.
_SETTLE_S = 0.5
_LOOK_S = 2.0
_BATCH = 500
# The largest number that an event could have.
_NEVER = 2**63 - 1


@dataclass(frozen=True)
class News:
    """`since` is the last event that was looked at: asked again with it, nothing is missed and nothing told twice."""

    since: int
    notices: Sequence[Notice] = field(default_factory=tuple)


async def news(runtime: Runtime, session_id: int, since: int | None, timeout_s: float = 0) -> News:
    """What has happened after an event (None: after now), waited for so long; as `notify_on` has it."""

    def look(after: int) -> News:
        with runtime.store.read() as db:
            return _look(db, runtime, session_id, after)

    deadline = asyncio.get_running_loop().time() + timeout_s
    found = await asyncio.to_thread(look, -1 if since is None else min(since, _NEVER))
    if found.notices or timeout_s <= 0:
        return found
    try:
        async with asyncio.timeout_at(deadline), aclosing(runtime.store.bell.listen(_LOOK_S)) as bell:
            async for _ in bell:
                before = found.since
                found = await asyncio.to_thread(look, before)
                if found.notices:
                    await asyncio.sleep(_SETTLE_S)
                    return await asyncio.to_thread(look, before)
    except TimeoutError:
        # Seen, but not told yet: the next one who asks gets it.
        return News(before) if found.notices else found
    return found


def _look(db: Session, runtime: Runtime, session_id: int, after: int) -> News:
    if after < 0:
        return News(events.last_event_id(db))
    told: list[Notice] = []
    while batch := events.events_after(db, after, session_id, _BATCH):
        after = batch[-1].id or after
        told += notes.notices(db, runtime.registry, batch)
    wanted = runtime.settings.notify_on
    return News(after, [one for one in told if one.kind in wanted])


def is_awaited(db: Session, registry: Registry, session_id: int) -> bool:
    """Whether something is on its way in the session: a server that loads, a sweep that is carried out here."""
    launch: Any = registry.by_word["launch"].table
    sweep: Any = registry.by_word["sweep"].table
    loads = select(launch.id).where(
        launch.session_id == session_id, col(launch.watched), col(launch.state).in_(LOADING)
    )
    runs = select(sweep.id).where(
        sweep.session_id == session_id,
        sweep.state == "running",
        col(sweep.started_at).is_not(None),
    )
    return any(db.exec(query.limit(1)).first() is not None for query in (loads, runs))
