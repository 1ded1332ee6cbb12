"""Launches: the ones that live, each with its phases, and the ones before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sitrepd.dashboard import words
from sitrepd.dashboard.progress import Progress, progress
from sitrepd.dashboard.view import View
from sitrepd.launches.engines.base import PHASE, PHASE_ORDER
from sitrepd.launches.models import ALIVE, Launch
from sitrepd.reporting import command_line

_MOST = 60
_MOST_SHOWN = 4
_SCALE = 1000.0
_UNDER_WAY = tuple(state for state in ALIVE if state != "ready")


@dataclass(frozen=True)
class PhaseRow:
    """One phase on the time line: `x` and `width` in thousandths of the whole start."""

    title: str
    kind: str
    time: str
    note: str
    open: bool
    x: float
    width: float


@dataclass(frozen=True)
class Panel:
    """One launch in full; `now` is set only of a process that lives."""

    told: Any
    name: str
    state: str
    now: Progress | None
    phases: Sequence[PhaseRow]
    rest: float
    took: str
    problem: str | None

    @property
    def command(self) -> str:
        """As it would be pasted; "" where it was not recorded."""
        return command_line(self.told.command, self.told.argv, self.told.env) or ""

    @property
    def recorded(self) -> bool:
        """Its state was told or imported: no statement may treat it as a running process."""
        return not self.told.watched


def look(view: View) -> dict[str, Any]:
    told = view.told("launch", _MOST)
    full = _shown_in_full(told)
    shown = {launch.id for launch in full}
    return {
        "panels": [panel(launch, view.alive("launches"), view.now) for launch in full],
        "others": [_line(launch) for launch in told if launch.id not in shown],
        "elsewhere": _elsewhere(view),
        "count": view.count("launch"),
    }


def _elsewhere(view: View) -> list[tuple[str, str | None, Any]]:
    """(id, session, what is known now) of living launches that are not of this session: they take GPUs too."""
    found = []
    for number, living in view.alive("launches").items():
        row = view.db.get(Launch, number)
        if row is not None and row.session_id != view.session_id:
            found.append((f"L{number}", f"S{row.session_id}" if row.session_id else None, living))
    return found


def _shown_in_full(told: Sequence[Any]) -> list[Any]:
    """What lives and is not ready yet, what is ready, what was told to be under way; else the last one."""
    loading = [one for one in told if one.watched and one.state in _UNDER_WAY]
    ready = [one for one in told if one.watched and one.state == "ready"]
    recorded = [one for one in told if not one.watched and one.state in _UNDER_WAY]
    latest = [one for one in told[:1] if one.state == "failed" and one.watched]
    return (loading + latest + ready + recorded)[:_MOST_SHOWN] or list(told[:1])


def panel(launch: Any, alive: Any, now: datetime) -> Panel:
    """`alive` maps numbers of launches to what is known of them now."""
    living = alive.get(int(launch.id[1:])) if launch.watched else None
    shown = progress(living) if living is not None else None
    began = launch.started_at or min((p.started_at for p in launch.phases if p.started_at), default=None)
    rest_s = (living.remaining_s or 0.0) if living is not None and living.remaining_of == "start" else 0.0
    phases, rest = _time_line(launch, began, now, rest_s, shown is not None)
    return Panel(
        told=launch,
        name=launch.name or launch.engine or "server",
        state=shown.state if shown else launch.state or "not recorded",
        now=shown if shown and shown.state != "ready" else None,
        phases=phases,
        rest=rest,
        took=words.duration((launch.ready_at - began).total_seconds()) if launch.ready_at and began else "",
        problem=getattr(living, "log_problem", None),
    )


def _time_line(
    launch: Any, began: datetime | None, now: datetime, rest_s: float, living: bool
) -> tuple[list[PhaseRow], float]:
    """The phases on one scale, and where on it the time that is left begins."""
    told = sorted(launch.phases, key=lambda phase: (PHASE_ORDER.get(phase.name, 99), phase.started_at or now))
    if began is None:
        return [_row(phase, None, now, 1.0, living) for phase in told], _SCALE
    last = launch.ready_at or launch.ended_at or (now if living else None)
    ends = [moment for phase in told for moment in (phase.started_at, phase.ended_at) if moment]
    end = last or max(ends, default=began)
    span_s = max((end - began).total_seconds() + rest_s, 0.001)
    return [_row(phase, began, end, span_s, living) for phase in told], _SCALE * (1 - rest_s / span_s)


def _row(phase: Any, began: datetime | None, end: datetime, span_s: float, living: bool) -> PhaseRow:
    info = PHASE.get(phase.name)
    x = width = 0.0
    seconds = float(phase.elapsed_s) if phase.elapsed_s is not None else None
    if began is not None and phase.started_at is not None:
        stop = phase.ended_at or end
        x = _within((phase.started_at - began).total_seconds() / span_s)
        width = max(_within((stop - began).total_seconds() / span_s) - x, 4.0)
        if seconds is None and (phase.ended_at or living):
            seconds = max((stop - phase.started_at).total_seconds(), 0.0)
    return PhaseRow(
        title=info.title if info else phase.name.replace("_", " "),
        kind=info.state if info else "loading",
        time="" if seconds is None else words.seconds_text(seconds),
        note="" if living or phase.ended_at is not None else _note(phase),
        open=phase.ended_at is None,
        x=round(x, 1),
        width=round(width, 1),
    )


def _within(share: float) -> float:
    return _SCALE * min(max(share, 0.0), 1.0)


def _note(phase: Any) -> str:
    if phase.total:
        return f"{phase.done or 0} of {phase.total} {phase.unit or ''}".strip()
    if phase.progress is not None and phase.ended_at is None:
        return f"{int(phase.progress * 100)} %"
    return ""


def _line(launch: Any) -> dict[str, Any]:
    began = launch.started_at
    took = (launch.ready_at - began).total_seconds() if launch.ready_at and began else None
    return {
        "told": launch,
        "took": "" if took is None else words.duration(took),
        "moment": began or launch.at,
        "why": launch.failure or "",
    }
