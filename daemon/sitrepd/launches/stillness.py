"""Whether a watched start stands still, by what this machine shows of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from sitrepd.clock import utc_now
from sitrepd.launches import suspicion
from sitrepd.launches.engines.base import PhaseInfo
from sitrepd.launches.processes import Stat
from sitrepd.launches.suspicion import Suspicion

if TYPE_CHECKING:
    from sitrepd.launches.estimate import Estimates
    from sitrepd.launches.watch import Watch
    from sitrepd.runtime import Runtime


class Stillness:
    """`gpu_bytes` tells what processes hold of GPU memory, by their pids."""

    def __init__(self, suspicion: Suspicion, gpu_bytes: Callable[[Mapping[int, Stat]], int | None]) -> None:
        self._suspicion = suspicion
        self._gpu_bytes = gpu_bytes
        self.slow: str | None = None
        """What to say of a phase that moves, and takes far longer than it did before."""

    def is_due(self) -> bool:
        return self._suspicion.is_due(time.monotonic())

    def look(self, watch: Watch, phase: PhaseInfo, tree: Mapping[int, Stat]) -> str | None:
        """What to say of a start that has stood still for too long; None while it moves."""
        elapsed = watch.course.elapsed_s(phase.name, utc_now()) if phase.name in watch.course.began else 0.0
        position = watch.follower.position
        log_bytes = (position.offset if position else 0) + len(watch.follower.partial)
        pulse = suspicion.pulse(log_bytes, tree, self._gpu_bytes(tree))
        standing = self._suspicion.look(time.monotonic(), phase.name, elapsed, pulse)
        usual = self._suspicion.usual_s(phase.name)
        self.slow = suspicion.slow_words(phase.title, usual) if usual and suspicion.is_slow(elapsed, usual) else None
        if standing is None:
            return None
        self.slow = None
        bar = watch.progress.get(phase.name)
        progress = f" at {bar.done} of {bar.total} {bar.unit}" if bar else ""
        ranks = suspicion.ranks(tree, watch.launched.identity.pid)
        halted = suspicion.halted(tree, ranks)
        return suspicion.words(phase.title, progress, standing, usual, ranks, utc_now(), halted)


def of(runtime: Runtime, estimates: Estimates, watch: Watch) -> Stillness:
    usual = partial(estimates.usual_s, watch)
    return Stillness(Suspicion(runtime.settings.suspect_after_s, usual), partial(_gpu_bytes, runtime, watch.number))


def _gpu_bytes(runtime: Runtime, number: int, tree: Mapping[int, Stat]) -> int | None:
    live = runtime.live.get("hardware")
    if live is None:
        return None
    held = [owned.process for owned in live.processes if owned.launch_id == number or owned.process.pid in tree]
    return sum(process.used_bytes or 0 for process in held) if held else None
