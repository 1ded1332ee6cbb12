"""The moment of each launch: phase, progress, time left."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field

from sqlmodel import Session, col, select

from sitrepd.clock import utc_now
from sitrepd.launches import eta
from sitrepd.launches.live import LiveLaunch
from sitrepd.launches.models import Launch, LaunchPhase
from sitrepd.launches.watch import Outcome, Watch
from sitrepd.storage.store import Store

_HISTORY = 5


@dataclass
class _Memory:
    history: list[dict[str, float]] | None = None
    rates: dict[str, eta.Rate] = field(default_factory=dict)


class Estimates:
    """Keeps, per launch, the history that foretells it and how fast its bars move."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._of: dict[int, _Memory] = {}

    def begin(self, number: int) -> None:
        self._of[number] = _Memory()

    def end(self, number: int) -> None:
        self._of.pop(number, None)

    def live(self, watch: Watch, outcome: Outcome) -> LiveLaunch:
        now = utc_now()
        phase = watch.phase()
        started = watch.open_phases.get(phase.name) if phase else None
        bar = watch.progress.get(phase.name) if phase else None
        elapsed = (now - started).total_seconds() if started else 0.0
        share = bar.done / bar.total if bar and bar.total else None
        estimate = (
            None
            if outcome.state in ("ready", "failed")
            else self._estimate(watch, phase.name if phase else None, elapsed)
        )
        return LiveLaunch(
            state=outcome.state,
            phase=phase.name if phase and outcome.state != "ready" else None,
            title=phase.title if phase and outcome.state != "ready" else None,
            progress=share,
            done=bar.done if bar else None,
            total=bar.total if bar else None,
            unit=bar.unit if bar else None,
            elapsed_s=(now - watch.launched.started_at).total_seconds(),
            phase_elapsed_s=elapsed if started else None,
            remaining_s=estimate.remaining_s if estimate else None,
            remaining_low_s=estimate.low_s if estimate else None,
            remaining_high_s=estimate.high_s if estimate else None,
            remaining_of=estimate.of if estimate else None,
            pid=watch.launched.identity.pid,
            log_problem=outcome.log_problem,
        )

    def _estimate(self, watch: Watch, phase: str | None, elapsed_s: float) -> eta.Estimate | None:
        memory = self._of.setdefault(watch.number, _Memory())
        if memory.history is None:
            with self._store.read() as db:
                memory.history = history(db, watch.number)
        bar = watch.progress.get(phase or "")
        share = bar.done / bar.total if bar and bar.total else None
        estimate = eta.from_history(memory.history, watch.ended_phases, phase, elapsed_s, share)
        if estimate is not None or bar is None:
            return estimate
        rate = memory.rates.setdefault(bar.phase, eta.Rate(deque()))
        now = time.monotonic()
        rate.add(now, bar.done)
        left = rate.left_s(now, bar.total)
        return eta.from_rate(left) if left is not None else None


def history(db: Session, number: int) -> list[dict[str, float]]:
    """Durations of the phases (seconds) of the last starts of the same engine, models and host that became ready."""
    launch = db.get(Launch, number)
    if launch is None:
        return []
    same = [
        col(Launch.engine) == launch.engine,
        col(Launch.model).is_not_distinct_from(launch.model),
        col(Launch.model_id).is_not_distinct_from(launch.model_id),
        col(Launch.draft_model).is_not_distinct_from(launch.draft_model),
        col(Launch.draft_model_id).is_not_distinct_from(launch.draft_model_id),
        col(Launch.host_id).is_not_distinct_from(launch.host_id),
        col(Launch.watched).is_(True),
        col(Launch.ready_at).is_not(None),
        col(Launch.id) != number,
    ]
    query = select(Launch.id).where(*same).order_by(col(Launch.id).desc()).limit(_HISTORY)
    return [_durations(db, earlier) for earlier in db.exec(query).all() if earlier is not None]


def _durations(db: Session, number: int) -> dict[str, float]:
    rows = db.exec(select(LaunchPhase).where(LaunchPhase.launch_id == number)).all()
    return {
        row.name: (row.ended_at - row.started_at).total_seconds() for row in rows if row.started_at and row.ended_at
    }
