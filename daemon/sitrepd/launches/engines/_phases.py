"""Which phases are open on which rank, told as one phase for the whole launch."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sitrepd.launches.engines._lines import Bar
from sitrepd.launches.engines.base import PHASE_ORDER, Compiled, LogEvent, PhaseBegan, PhaseEnded, PhaseProgress, Role

_ALONGSIDE = frozenset({"autotune"})


@dataclass
class _Phase:
    began_at: str
    round: int = 0
    open: list[str] = field(default_factory=list)
    begun: dict[str, int] = field(default_factory=dict)
    elapsed: list[float | None] = field(default_factory=list)
    progress: list[int] = field(default_factory=list)


class PhaseTracker:
    """A phase begins with its first rank and ends with the last rank that began; ranks are labels such as "TP0"."""

    def __init__(self, state: dict[str, Any] | None = None) -> None:
        state = state or {}
        self._phases: dict[str, _Phase] = {name: _Phase(**saved) for name, saved in state.get("phases", {}).items()}
        self._left_at: dict[str, str] = dict(state.get("left_at", {}))

    def state(self) -> dict[str, Any]:
        return {"phases": {name: asdict(phase) for name, phase in self._phases.items()}, "left_at": dict(self._left_at)}

    def seen(self, name: str) -> bool:
        return name in self._phases

    def begun(self, name: str, rank: str) -> int:
        """How often the rank has entered the phase."""
        return self._phases[name].begun.get(rank, 0) if name in self._phases else 0

    def is_open(self, name: str, rank: str | None = None) -> bool:
        phase = self._phases.get(name)
        return phase is not None and (bool(phase.open) if rank is None else rank in phase.open)

    def current(self, rank: str = "") -> str:
        """The open phase of the rank, else the earliest open phase of any, else ""."""
        opened = [name for name, phase in self._phases.items() if phase.open]
        own = [name for name in opened if rank in self._phases[name].open]
        return min(own or opened, key=PHASE_ORDER.__getitem__, default="")

    def furthest(self, rank: str) -> int:
        """The place in `PHASE_ORDER` of the last phase that the rank has entered, -1 for none."""
        return max((PHASE_ORDER[name] for name, phase in self._phases.items() if rank in phase.begun), default=-1)

    def left_at(self, rank: str, otherwise: datetime) -> datetime:
        """When the rank left its last phase: the begin of what announces itself only at its end."""
        text = self._left_at.get(rank)
        return datetime.fromisoformat(text) if text else otherwise

    def begin(
        self, name: str, rank: str, at: datetime, keep: frozenset[str] = frozenset(), *, late: bool = False
    ) -> list[LogEvent]:
        """Ends what the rank has open, unless it is in `keep`: a rank does one thing after the other.

        `late` is for a phase that the log tells of at its end: where other ranks have ended it, it is not opened anew.
        """
        if self.is_open(name, rank):
            return []
        events = [] if name in _ALONGSIDE else self._leave_others(name, rank, at, keep)
        phase = self._phases.setdefault(name, _Phase(at.isoformat()))
        turn = phase.begun[rank] = phase.begun.get(rank, 0) + 1
        again = turn <= phase.round
        if not again:
            phase.round = turn
            phase.elapsed.append(None)
            phase.progress = []
        if not phase.open and not (late and again):
            if turn > 1:
                phase.began_at = at.isoformat()
            events.append(PhaseBegan(at=at, rank=rank, role=role_of(name), phase=name, round=phase.round))
        phase.open.append(rank)
        return events

    def end(self, name: str, rank: str, at: datetime, elapsed_s: float | None = None) -> list[LogEvent]:
        """A phase whose begin was not seen began `elapsed_s` before its first end."""
        events: list[LogEvent] = []
        self._left_at[rank] = at.isoformat()
        if name not in self._phases:
            events = self.begin(name, rank, at - timedelta(seconds=elapsed_s) if elapsed_s else at)
        phase = self._phases[name]
        turn = phase.begun.setdefault(rank, phase.round) - 1
        if rank in phase.open:
            phase.open.remove(rank)
        if elapsed_s is not None:
            phase.elapsed[turn] = max(phase.elapsed[turn] or 0.0, elapsed_s)
        return events if phase.open else [*events, self._ended(name, phase, rank, at)]

    def _ended(self, name: str, phase: _Phase, rank: str, at: datetime) -> PhaseEnded:
        printed = [value for value in phase.elapsed if value is not None]
        total = round(sum(printed), 3) if printed else None
        at = max(at, datetime.fromisoformat(phase.began_at))
        return PhaseEnded(at=at, rank=rank, role=role_of(name), phase=name, elapsed_s=total, round=phase.round)

    def leave(self, rank: str, at: datetime) -> list[LogEvent]:
        """Ends what the rank has open."""
        return self._leave_others("", rank, at, frozenset())

    def end_all(self, at: datetime, *, before: str = "") -> list[LogEvent]:
        """Ends every open phase, or those before one in the order of display."""
        limit = PHASE_ORDER[before] if before else len(PHASE_ORDER)
        return [
            event
            for name, phase in sorted(self._phases.items(), key=lambda item: PHASE_ORDER[item[0]])
            if PHASE_ORDER[name] < limit
            for rank in list(phase.open)
            for event in self.end(name, rank, at)
        ]

    def progress(self, name: str, bar: Bar, unit: str, detail: str = "") -> list[LogEvent]:
        """Nothing when the bar stands where it stood; `at` is the phase's begin plus the bar's own clock."""
        phase = self._phases.get(name)
        if phase is None or phase.progress == [bar.done, bar.total]:
            return []
        return [
            PhaseProgress(
                at=datetime.fromisoformat(phase.began_at) + timedelta(seconds=bar.elapsed_s),
                role=role_of(name),
                phase=name,
                done=bar.done,
                total=bar.total,
                unit=unit,
                elapsed_s=bar.elapsed_s,
                detail=detail,
            )
        ]

    def inside(self, name: str, outer: str, seconds: float) -> list[LogEvent]:
        """A phase that filled the begin of another one for so long, and is over; times of several add up."""
        began = datetime.fromisoformat(self._phases[outer].began_at)
        ended = began + timedelta(seconds=seconds)
        phase = self._phases.setdefault(name, _Phase(began.isoformat()))
        phase.round += 1
        phase.elapsed.append(seconds)
        what = Compiled(at=ended, what=f"first graph of {outer}", seconds=seconds)
        return [PhaseBegan(at=began, phase=name, round=phase.round), what, self._ended(name, phase, "", ended)]

    def remember(self, name: str, bar: Bar) -> None:
        self._phases[name].progress = [bar.done, bar.total]

    def open_for_bar(self, names: tuple[str, ...]) -> str:
        """Of the open phases among `names` the one where rank 0 is, which alone draws bars; else the first opened."""
        opened = [name for name in names if self.is_open(name)]
        drawn = [name for name in opened if any(_is_first(rank) for rank in self._phases[name].open)]
        return (drawn or opened or [""])[0]

    def _leave_others(self, name: str, rank: str, at: datetime, keep: frozenset[str]) -> list[LogEvent]:
        events: list[LogEvent] = []
        if self.is_open("starting") and name != "starting":
            events += self.end("starting", "", at)
        for other, phase in self._phases.items():
            if other not in keep and other != name and rank in phase.open:
                events += self.end(other, rank, at)
        return events


def _is_first(rank: str) -> bool:
    return not any(digit in rank for digit in "123456789")


def role_of(name: str) -> Role:
    """Which of the two models a phase is about."""
    if "draft" in name:
        return "draft"
    return "target" if name.startswith(("load_", "kv_", "capture_")) else ""
