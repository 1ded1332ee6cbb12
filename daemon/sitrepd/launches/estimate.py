"""The moment of each launch: phase, progress, time left."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlmodel import Session, col, select

from sitrepd.clock import utc_now
from sitrepd.launches.course import spans
from sitrepd.launches.eta import Earlier, Estimate, Known, estimate
from sitrepd.launches.live import LiveLaunch
from sitrepd.launches.models import Launch, LaunchPhase
from sitrepd.launches.watch import Outcome, Watch
from sitrepd.storage.store import Store

_HISTORY = 5
_COMPILES = "{}: compiling kernels"


class Estimates:
    """Keeps, per launch, the history that foretells it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[int, Known] = {}

    def begin(self, number: int) -> None:
        self._known.pop(number, None)

    def end(self, number: int) -> None:
        self._known.pop(number, None)

    def live(self, watch: Watch, outcome: Outcome) -> LiveLaunch:
        now = utc_now()
        phase = watch.phase() if outcome.state != "ready" else None
        started = watch.open_phases.get(phase.name) if phase else None
        bar = watch.progress.get(phase.name) if phase else None
        left = None if outcome.state in ("ready", "failed") else self._estimate(watch, now)
        return LiveLaunch(
            state=outcome.state,
            phase=phase.name if phase else None,
            title=_title(watch, phase.title, now) if phase else None,
            progress=bar.done / bar.total if bar and bar.total else None,
            done=bar.done if bar else None,
            total=bar.total if bar else None,
            unit=bar.unit if bar else None,
            elapsed_s=(now - watch.launched.started_at).total_seconds(),
            phase_elapsed_s=(now - started).total_seconds() if started else None,
            remaining_s=left.remaining_s if left else None,
            remaining_low_s=left.low_s if left else None,
            remaining_high_s=left.high_s if left else None,
            remaining_of=left.of if left else None,
            pid=watch.launched.identity.pid,
            log_problem=outcome.log_problem,
            suspect=watch.suspect,
        )

    def known(self, watch: Watch) -> Known:
        """What was known when the launch began."""
        found = self._known.get(watch.number)
        if found is None:
            with self._store.read() as db:
                found = self._known[watch.number] = known(db, watch.number, watch.cold, watch.weight_bytes)
        return found

    def usual_s(self, watch: Watch, phase: str) -> float | None:
        """The longest that the phase took in earlier starts of the same kind."""
        return max((one.spans[phase] for one in self.known(watch).same if phase in one.spans), default=None)

    def _estimate(self, watch: Watch, now: datetime) -> Estimate | None:
        return estimate(watch.course, self.known(watch), now)


def _title(watch: Watch, title: str, now: datetime) -> str:
    return _COMPILES.format(title) if watch.course.is_compiling(now) else title


def known(db: Session, number: int, cold: bool | None, weight_bytes: int | None) -> Known:
    """From the last starts of the same engine, model and host that became ready, with the same draft and with others.

    Those that were read from logs later count as those that were watched. The first start of its kind compiled what
    the later ones find in the caches.
    """
    launch = db.get(Launch, number)
    if launch is None:
        return Known()
    alike = _ready_before(launch)
    draft = [
        col(Launch.draft_model).is_not_distinct_from(launch.draft_model),
        col(Launch.draft_model_id).is_not_distinct_from(launch.draft_model_id),
    ]
    newest = col(Launch.started_at).desc()
    same = db.exec(select(Launch).where(*alike, *draft).order_by(newest).limit(_HISTORY)).all()
    others = db.exec(select(Launch).where(*alike).order_by(newest).limit(2 * _HISTORY)).all()
    first = db.exec(select(Launch.id).where(*alike, *draft).order_by(col(Launch.started_at)).limit(1)).first()
    ids = {row.id for row in same}
    return Known(
        engine=launch.engine or "generic",
        draft=launch.draft_model is not None or launch.draft_model_id is not None,
        same=[_earlier(db, row, row.id == first) for row in same],
        alike=[_earlier(db, row, True) for row in others if row.id not in ids][:_HISTORY],
        cold=cold or (False if same else None),
        weight_bytes=weight_bytes,
    )


def usual_spans(db: Session, number: int) -> dict[str, float]:
    """The longest that each phase took in earlier starts of the same kind."""
    found: dict[str, float] = {}
    for one in known(db, number, None, None).same:
        for phase, seconds in one.spans.items():
            found[phase] = max(seconds, found.get(phase, 0.0))
    return found


def _ready_before(launch: Launch) -> Sequence[Any]:
    return [
        col(Launch.engine) == launch.engine,
        col(Launch.model).is_not_distinct_from(launch.model),
        col(Launch.model_id).is_not_distinct_from(launch.model_id),
        col(Launch.host_id).is_not_distinct_from(launch.host_id),
        col(Launch.started_at).is_not(None),  # watched, or read from its log; what was only told has no such time
        col(Launch.ready_at).is_not(None),
        col(Launch.id) != launch.id,
    ]


def _earlier(db: Session, launch: Launch, first: bool) -> Earlier:
    rows = db.exec(select(LaunchPhase).where(LaunchPhase.launch_id == launch.id)).all()
    cold = first or (launch.process or {}).get("kernels") == "cold"
    return Earlier(spans(rows, launch.ready_at), cold)
