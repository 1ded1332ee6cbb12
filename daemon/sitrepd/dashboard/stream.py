"""The event stream of one tab: which parts to fetch anew, and what moves from second to second."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from fastapi.sse import ServerSentEvent
from starlette.concurrency import run_in_threadpool

from sitrepd.dashboard import live
from sitrepd.dashboard.parts import PARTS, concerned
from sitrepd.dashboard.parts.gpus import composition
from sitrepd.runtime import Runtime
from sitrepd.storage import events

# Two refreshes a second of a part at the most, live values once a second.
_PAUSE_S = 0.5
_LIVE_S = 1.0
# The time line of a start grows although no phase has changed.
_GROWS_S = 20.0
_MOST_EVENTS = 500


@dataclass
class Tab:
    """What one open page has seen; without a session it is the page that lists them."""

    runtime: Runtime
    session_id: int | None
    home: bool
    cursor: int
    shown: live.Values = field(default_factory=dict)
    live_at: float = 0.0
    grown_at: float = field(default_factory=time.monotonic)
    drawn: tuple[Any, ...] | None = None

    async def events(self) -> AsyncIterator[ServerSentEvent]:
        """Until the tab leaves or the daemon stops."""
        async with aclosing(self.runtime.store.bell.listen(_LIVE_S)) as bell:
            yield ServerSentEvent(comment="hello", retry=1000)
            for event in await self._step(committed=True):
                yield event
            async for committed in bell:
                for event in await self._step(committed):
                    yield event
                await asyncio.sleep(_PAUSE_S)

    async def _step(self, committed: bool) -> list[ServerSentEvent]:
        told = await run_in_threadpool(self._changed) if committed else []
        if self._grows():
            told.append(_event("part-launches"))
        if self._gpus_differ():
            told.append(_event("part-gpus"))
        if self._is_due():
            self.live_at = time.monotonic()
            after = await run_in_threadpool(live.values, self.runtime, self.session_id)
            moved = live.changes(self.shown, after)
            self.shown = after
            if moved:
                told.append(_event("live", json.dumps(moved)))
        if told:
            told[-1].id = str(self.cursor)
        return told

    def _is_due(self) -> bool:
        return time.monotonic() - self.live_at >= _LIVE_S * 0.9

    def _grows(self) -> bool:
        """Whether the time line is to be drawn again, for the time that went by."""
        if self.home or time.monotonic() - self.grown_at < _GROWS_S or not self.runtime.live.get("launches"):
            return False
        self.grown_at = time.monotonic()
        return True

    def _gpus_differ(self) -> bool:
        """Whether there are other GPUs, or others on them, than at the last look."""
        before, self.drawn = self.drawn, composition(live.hardware(self.runtime))
        return before is not None and before != self.drawn and not self.home

    def _changed(self) -> list[ServerSentEvent]:
        with self.runtime.store.read() as db:
            last = events.last_event_id(db)
            if self.cursor > last:
                # The page was made from another store: nothing of it holds.
                return [_event("reload")]
            found = events.events_after(db, self.cursor, None if self.home else self.session_id, _MOST_EVENTS)
        self.cursor = last
        return [_event(f"part-{name}") for name in self._parts([event.kind for event in found])]

    def _parts(self, kinds: Sequence[str]) -> Sequence[str]:
        if self.home:
            wanted = any(kind.startswith(("session.", "launch.")) for kind in kinds)
            return ["home"] if wanted else []
        if len(kinds) >= _MOST_EVENTS:
            return list(PARTS)
        return concerned(kinds)


def _event(name: str, data: str = "") -> ServerSentEvent:
    return ServerSentEvent(event=name, raw_data=data)
