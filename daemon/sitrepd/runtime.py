"""What lives as long as the daemon: store, registry, scheduler, and the state that is not worth a row."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sitrepd.settings import Settings
from sitrepd.slices import Registry
from sitrepd.storage.store import Store

if TYPE_CHECKING:
    from apscheduler.schedulers.asyncio import AsyncIOScheduler


class Activity:
    """When a session was last told or asked something; polls, waits, scrapes and open pages do not count."""

    def __init__(self) -> None:
        self._last: dict[int | None, float] = {}
        self._start = time.monotonic()

    def touch(self, session_id: int | None) -> None:
        self._last[session_id] = time.monotonic()

    def idle_s(self, session_id: int | None) -> float:
        """Seconds since the last fact or question of that session (of the daemon's start, if none came yet)."""
        return time.monotonic() - self.last(session_id)

    def last(self, session_id: int | None) -> float:
        """When that was, by the monotonic clock."""
        return max(self._last.get(session_id, self._start), self._last.get(None, self._start))


@dataclass
class Runtime:
    """Handed to services and routes; `live` holds what slices know of the present moment, by slice name."""

    settings: Settings
    store: Store
    registry: Registry
    activity: Activity = field(default_factory=Activity)
    live: dict[str, Any] = field(default_factory=dict)
    counters: Counter[str] = field(default_factory=Counter)
    scheduler: AsyncIOScheduler | None = None
    host_id: int | None = None
    """The row of this machine, once the hardware slice has looked."""
