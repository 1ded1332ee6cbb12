"""Time left of a start: from earlier starts of the same model, phase by phase, else from the rate of the bar."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

_WINDOW_S = 60.0
_SPREAD = 0.25
_FEW = 3


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds left, with a range; `of` says whether to ready or to the end of the present phase."""

    remaining_s: float
    low_s: float
    high_s: float
    of: Literal["start", "phase"]


@dataclass
class Rate:
    """How fast a bar moves, over the last minute: a bar's own estimate trusts its first, cached, steps."""

    _seen: deque[tuple[float, int]] = field(default_factory=deque)

    def add(self, now_s: float, done: int) -> None:
        if self._seen and self._seen[-1][1] == done:
            return
        self._seen.append((now_s, done))
        while len(self._seen) > _FEW and now_s - self._seen[0][0] > _WINDOW_S:
            self._seen.popleft()

    def left_s(self, now_s: float, total: int) -> float | None:
        """Seconds until `total` at the rate of the window; a stalled bar slows it down."""
        if len(self._seen) < 2:
            return None
        (first_s, first), (_, last) = self._seen[0], self._seen[-1]
        if last <= first:
            return None
        return (total - last) * (now_s - first_s) / (last - first)


def from_history(
    history: Sequence[Mapping[str, float]],
    ended: Sequence[str],
    phase: str | None,
    phase_elapsed_s: float,
    share: float | None,
) -> Estimate | None:
    """From the durations (seconds, by phase) of earlier starts, newest first; None without any.

    `ended` are the phases that are over, `phase` the present one, `share` how much of it is done.
    """
    totals = [_left(start, ended, phase, phase_elapsed_s, share) for start in history[:5] if start]
    if not totals:
        return None
    middle = median(totals)
    if len(totals) >= _FEW:
        return Estimate(middle, min(totals), max(totals), "start")
    return Estimate(middle, middle * (1 - _SPREAD), middle * (1 + _SPREAD), "start")


def _left(
    start: Mapping[str, float], ended: Sequence[str], phase: str | None, elapsed_s: float, share: float | None
) -> float:
    left = sum(seconds for name, seconds in start.items() if name not in ended and name != phase)
    usual = start.get(phase or "", 0.0)
    of_phase = max(usual - elapsed_s, 0.0)
    if share is not None and share > 0.05:
        # What is measured now weighs the more, the further the bar has come.
        measured = elapsed_s * (1 - share) / share
        of_phase = (1 - share) * of_phase + share * measured
    return left + of_phase


def from_rate(left_s: float) -> Estimate:
    return Estimate(left_s, left_s * (1 - _SPREAD), left_s * (1 + 2 * _SPREAD), "phase")
