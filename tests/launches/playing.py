"""Recorded starts played back by the clock of their own lines, and how far the estimates were from the truth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from types import SimpleNamespace

from tests.launches.reading import read_file

from sitrepd.launches.course import Course, spans
from sitrepd.launches.engines import base as e
from sitrepd.launches.eta import Earlier, Estimate, Known, estimate

TENTHS = tuple(n / 10 for n in range(1, 10))


@dataclass(frozen=True)
class Recording:
    """The events of a start in the order of their times, from its first line to its ready line."""

    events: list[e.LogEvent]
    began: datetime
    ready: datetime

    @property
    def seconds(self) -> float:
        return (self.ready - self.began).total_seconds()

    def earlier(self, *, cold: bool | None = None) -> Earlier:
        """This start as the history of another one."""
        course = Course()
        course.feed(self.events)
        rows = [
            SimpleNamespace(name=name, started_at=at, ended_at=course.ended.get(name), total=None)
            for name, at in course.began.items()
        ]
        return Earlier(spans(rows, self.ready), cold)

    def ticks(self, known: Known, shares: tuple[float, ...] = TENTHS) -> Iterator[tuple[float, float, Estimate | None]]:
        """(share of the start, seconds that were really left, what was said) at each share."""
        course, ahead = Course(), list(self.events)
        for share in shares:
            now = self.began + timedelta(seconds=share * self.seconds)
            while ahead and ahead[0].at <= now:
                course.feed([ahead.pop(0)])
            yield share, (self.ready - now).total_seconds(), estimate(course, known, now)


def recording(path: Path) -> Recording:
    events = read_file(path)
    ready = next(event.at for event in events if isinstance(event, e.Ready))
    told = [event for event in events if isinstance(event, e.PhaseBegan | e.PhaseProgress | e.PhaseEnded | e.Warned)]
    told.sort(key=lambda event: event.at)
    return Recording(told, told[0].at, ready)


def error(left_s: float, told: Estimate | None) -> float:
    """|estimate - remaining| / remaining; an estimate of the present phase alone is none of the start."""
    return 1.0 if told is None or told.of != "start" else abs(told.remaining_s - left_s) / left_s


def known_errors(start: Recording, earlier: Recording) -> list[float]:
    """At each tenth of a start whose like has been seen once, which was the first of its kind."""
    known = Known("sglang", True, [earlier.earlier(cold=True)], cold=False)
    return [error(left, told) for _, left, told in start.ticks(known)]


def first_errors(start: Recording, draft: bool) -> list[float]:
    """At those tenths of a first start at which the weights were being read, or had been."""
    loading = next(event.at for event in start.events if event.kind == "phase_began" and event.phase == "load_weights")
    since = (loading - start.began).total_seconds() / start.seconds
    shares = tuple(share for share in TENTHS if share >= since)
    return [error(left, told) for _, left, told in start.ticks(Known("sglang", draft), shares)]


def middle(errors: list[float]) -> float:
    return median(errors)
