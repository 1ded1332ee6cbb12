"""What the events of one start come to: its phases, sizes and settings, as a followed launch would have them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sitrepd.launches.apply import compiled_while_serving, figures
from sitrepd.launches.engines import base as e

_MOST_WARNINGS = 50


@dataclass
class Picture:
    """Fed with the events of one start, in order."""

    phases: dict[str, dict[str, Any]] = field(default_factory=dict)
    sizes: dict[tuple[str, str, str], dict[str, Any]] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)
    throughput: dict[str, Any] | None = None
    warnings: list[str] = field(default_factory=list)
    failure: str | None = None
    failed_at: datetime | None = None
    ready_at: datetime | None = None
    port: int | None = None
    port_taken: bool = False
    stopping: bool = False

    def feed(self, event: e.LogEvent) -> None:
        match event:
            case e.PhaseBegan():
                phase = self.phases.setdefault(event.phase, {"name": event.phase, "started_at": event.at})
                phase.pop("ended_at", None)
            case e.PhaseProgress():
                self._progressed(event)
            case e.PhaseEnded():
                self._ended(event)
            case e.Sized():
                self.sizes[event.name, event.role, event.rank] = {
                    "name": event.name, "role": event.role, "rank": event.rank,
                    "value": event.value, "unit": event.unit,
                }  # fmt: skip
            case e.Listening() if event.port is not None:
                self.port = event.port
            case e.Settings():
                self.settings = event.values
            case e.Timings():
                self.timings = event.seconds
            case e.Throughput():
                self.throughput = figures(event)
            case e.Compiled() if event.after_ready and event.seconds:
                self._warn(compiled_while_serving(event))
            case e.Warned():
                self._warn(event.text)
            case e.PortTaken():
                self.port_taken = True
                self._warn(event.text)
            case e.Ready() if not event.suspect:
                self.ready_at = self.ready_at or event.at
            case e.Stopping():
                self.stopping = True
            case e.Failed() if self.failure is None:
                self.failure, self.failed_at = event.cause, event.at
            case _:
                pass

    @property
    def shows_a_start(self) -> bool:
        """Whether more than figures was seen: a phase, settings, readiness, or why it failed."""
        return bool(len(self.phases) > 1 or self.settings or self.ready_at or self.failure or self.port_taken)

    def end(self, at: datetime) -> None:
        """Close what is open when the start is over."""
        for phase in self.phases.values():
            phase.setdefault("ended_at", max(at, phase["started_at"]))

    def _progressed(self, event: e.PhaseProgress) -> None:
        phase = self.phases.get(event.phase)
        if phase is not None:
            phase |= {"done": event.done, "total": event.total, "unit": event.unit}
            phase["progress"] = round(event.done / event.total, 4) if event.total else None

    def _ended(self, event: e.PhaseEnded) -> None:
        phase = self.phases.get(event.phase)
        if phase is None:
            return
        phase["ended_at"] = max(event.at, phase["started_at"])
        phase["elapsed_s"] = event.elapsed_s
        if phase.get("total"):
            phase |= {"progress": 1.0, "done": phase["total"]}

    def _warn(self, text: str) -> None:
        if text not in self.warnings and len(self.warnings) < _MOST_WARNINGS:
            self.warnings.append(text)
