"""What a start has shown so far, by the clock of its log: phases, bars, and how fast they move."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sitrepd.launches.engines import base as e

ALONGSIDE = frozenset({"compile_kernels", "autotune"})
"""Phases that may pass within another one: their time is part of its time then."""
COMPILES_AFTER_S = 8.0
_MARKS = 512
_FEWEST_STEPS = 3
_WINDOW = 0.15


@dataclass
class Steps:
    """One bar: when it reached which step; its own estimate is not used, for it trusts the first, cached, steps."""

    total: int
    marks: deque[tuple[datetime, int]] = field(default_factory=lambda: deque(maxlen=_MARKS))

    @property
    def done(self) -> int:
        return self.marks[-1][1] if self.marks else 0

    @property
    def share(self) -> float:
        return self.done / self.total if self.total else 0.0

    def add(self, at: datetime, done: int, total: int) -> None:
        if total != self.total or (self.marks and done < self.done):
            self.total = total
            self.marks.clear()
        if not self.marks or done != self.done:
            self.marks.append((at, done))

    def left_s(self, now: datetime) -> float | None:
        """Seconds to the last step at the pace of the latest ones; None before there is a pace."""
        step = self.step_s(now)
        if step is None:
            return None
        stalled = (now - self.marks[-1][0]).total_seconds()
        return max((self.total - self.done) * step - min(max(stalled, 0.0), step), 0.0)

    def step_s(self, now: datetime) -> float | None:
        """Seconds a step: over the latest 15 % of the bar, slower while it stands, a long first step left out."""
        if len(self.marks) < 2:
            return None
        (last, done), wanted = self.marks[-1], max(_FEWEST_STEPS, round(self.total * _WINDOW))
        inside = [mark for mark in self.marks if mark[1] >= done - wanted]
        if inside[0][1] == 0 and len(inside) > 2 and self._compiled(inside):
            inside = inside[1:]
        begun, first = inside[0] if len(inside) > 1 else self.marks[-2]
        pace = max((last - begun).total_seconds(), 0.0) / (done - first)
        stalled = (now - last).total_seconds()
        # A step that has taken longer than the others is one of the pace too.
        return pace if stalled <= 2 * pace else (pace * (done - first) + stalled) / (done - first + 1)

    @staticmethod
    def _compiled(inside: Sequence[tuple[datetime, int]]) -> bool:
        (began, _), (one, first), (two, second) = inside[:3]
        return (one - began) / max(first, 1) > 3 * (two - one) / max(second - first, 1)


@dataclass
class Course:
    """Fed with events in their order; pure, so that a recording can be played through it."""

    began: dict[str, datetime] = field(default_factory=dict)
    ended: dict[str, datetime] = field(default_factory=dict)
    bars: dict[str, Steps] = field(default_factory=dict)
    graphs: bool = True
    """False once the log has said that none will be captured."""

    def feed(self, events: Iterable[e.LogEvent]) -> None:
        for event in events:
            match event:
                case e.PhaseBegan():
                    self.began.setdefault(event.phase, event.at)
                    self.ended.pop(event.phase, None)
                case e.PhaseProgress():
                    self._progress(event)
                case e.PhaseEnded():
                    self.began.setdefault(event.phase, event.at - timedelta(seconds=event.elapsed_s or 0.0))
                    self.ended[event.phase] = event.at
                case e.Warned() if event.text.startswith("Cuda graph is disabled"):
                    self.graphs = False
                case e.Restarted():
                    self.forget()
                case _:
                    pass

    def _progress(self, event: e.PhaseProgress) -> None:
        bar = self.bars.get(event.phase)
        if bar is None:
            bar = self.bars[event.phase] = Steps(event.total)
            bar.add(self.began.get(event.phase, event.at), 0, event.total)
        bar.add(event.at, event.done, event.total)

    def forget(self) -> None:
        for told in (self.began, self.ended, self.bars):
            told.clear()

    def restore(self, rows: Iterable[Any]) -> None:
        """From the stored phases of a launch."""
        for row in sorted((row for row in rows if row.started_at), key=lambda row: row.started_at):
            self.began[row.name] = row.started_at
            if row.ended_at:
                self.ended[row.name] = row.ended_at
            if row.total:
                bar = self.bars[row.name] = Steps(row.total)
                bar.add(row.started_at, 0, row.total)

    def current(self) -> str | None:
        """The phase that began last; its time runs until the next one begins."""
        return max(
            (name for name in self.began if not self._is_inside(name)),
            key=lambda name: (self.began[name], e.PHASE_ORDER.get(name, 0)),
            default=None,
        )

    def _is_inside(self, name: str) -> bool:
        return name in ALONGSIDE and any(
            other not in ("starting", name)
            and began <= self.began[name]
            and (other not in self.ended or self.ended[other] > self.began[name])
            for other, began in self.began.items()
        )

    def elapsed_s(self, name: str, now: datetime) -> float:
        return max((now - self.began[name]).total_seconds(), 0.0)

    def is_compiling(self, now: datetime) -> bool:
        """A bar of graphs that stands before its first step is compiling kernels, and says so nowhere."""
        name = self.current()
        if name is None or not name.startswith("capture") or name in self.ended:
            return False
        bar = self.bars.get(name)
        return (bar is None or bar.done == 0) and self.elapsed_s(name, now) > COMPILES_AFTER_S


def spans(rows: Iterable[Any], ready_at: datetime | None) -> dict[str, float]:
    """Seconds from the begin of each phase to the begin of the next, the last to ready: together the whole start."""
    course = Course()
    told = [row for row in rows if row.started_at]
    course.restore(told)
    told = [row for row in told if not course._is_inside(row.name)]
    told.sort(key=lambda row: (row.started_at, e.PHASE_ORDER.get(row.name, 0)))
    ends = [row.started_at for row in told[1:]] + [ready_at or told[-1].ended_at] if told else []
    return {
        row.name: max((end - row.started_at).total_seconds(), 0.0) for row, end in zip(told, ends, strict=True) if end
    }
