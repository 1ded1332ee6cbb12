"""When a sweep will be done: from the trials that it has finished, and what is left of the present one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Any

_LEAST_SHARE = 0.1


@dataclass(frozen=True)
class Left:
    """`trials` are those that have not begun; without `seconds` nothing can be said yet."""

    trials: int
    seconds: float | None
    low: float | None = None
    high: float | None = None


def left(trials: Sequence[Any], count: int, now: datetime, live: Mapping[int, Any] | None = None) -> Left:
    """`count` is how many trials there will be at the most; `live` are the moments of launches.

    A trial is expected to take what those that were measured to their end took, by the median, so that a first start
    that compiled its kernels does not weigh on all others; the quickest and the slowest of them give the range. The
    first trial has the time left of its start alone, and then nothing can be said of the others.
    """
    planned = sum(one.state == "planned" for one in trials) + max(0, count - len(trials))
    took = [
        (one.ended_at - one.started_at).total_seconds()
        for one in trials
        if one.state == "done" and one.started_at is not None and one.ended_at is not None
    ]
    running = next((one for one in trials if one.state == "running"), None)
    if not took:
        return Left(planned, None)
    usual, low, high = median(took), min(took), max(took)
    spent: float | None = None
    if running is not None and running.started_at is not None:
        spent = (now - running.started_at).total_seconds()

    def whole(each: float) -> float:
        rest: float = max(each - spent, _LEAST_SHARE * each) if spent is not None else 0.0
        if running is not None and running.launch_id is not None:
            moment = (live or {}).get(running.launch_id)
            starts = getattr(moment, "remaining_s", None) if moment is not None else None
            rest = max(rest, float(starts or 0.0))
        return float(rest + planned * each)

    return Left(planned, whole(usual), whole(low), whole(high))
