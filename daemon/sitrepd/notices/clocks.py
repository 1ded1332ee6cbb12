"""Looks at the GPUs' clocks, and writes down when heat or a fault begins to hold some of them down."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

from sitrepd.hardware.state import WORRYING
from sitrepd.runtime import Runtime
from sitrepd.services import Service
from sitrepd.storage import events, ids

THROTTLED = "host.throttled"
_LOOK_S = 5.0
# Heat comes and goes within seconds: it is over once it has not been seen for so long.
_OVER_S = 300.0


class Clocks(Service):
    """One event where GPUs begin to be throttled, whoever is told of it then."""

    name = "clocks"

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._seen: dict[str, float] = {}

    async def run(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            live: Any = self._runtime.live.get("hardware")
            new = self.begun(throttled(getattr(live, "samples", ())), time.monotonic())
            if new:
                subject = ids.public_id("H", live.host_id or 0)
                await self._runtime.store.write_async(_recorded(subject, new))

    def begun(self, now: Mapping[str, str], at_s: float) -> dict[str, str]:
        """Those that are throttled now and were not a while ago."""
        self._seen = {name: seen_s for name, seen_s in self._seen.items() if at_s - seen_s < _OVER_S}
        new = {name: why for name, why in now.items() if name not in self._seen}
        self._seen |= dict.fromkeys(now, at_s)
        return new


def throttled(samples: Sequence[Any]) -> dict[str, str]:
    """GPUs whose clocks heat or a fault holds down, with the reasons."""
    found = {f"GPU {one.index}": [word for word in one.throttle if word in WORRYING] for one in samples}
    return {name: ", ".join(words) for name, words in found.items() if words}


def _recorded(subject: str, gpus: Mapping[str, str]) -> Any:
    return lambda db: events.record(db, THROTTLED, subject, None, gpus=dict(gpus))
