"""Whose turn it is among jobs that are measured in turns: what they have measured, and nothing else, decides it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlmodel import Session, col, select

from sitrepd.benchmarks.running.models import LIVING, BenchmarkJob
from sitrepd.launches.models import Launch
from sitrepd.runtime import Runtime


def next_of(living: Sequence[BenchmarkJob]) -> BenchmarkJob:
    """Round after round, every other one backwards, so that what drifts steadily weighs on all of them alike."""
    return min(living, key=lambda row: (row.run, (row.id or 0) * _direction(row.run)))


def _direction(run: int) -> int:
    """The warm-ups and the first runs go forwards."""
    return -1 if run and run % 2 == 0 else 1


class Turns:
    """`here` are the jobs that have their launch to themselves: none begins before all that it takes turns with do.

    A job keeps the turn until what it does is stored, so a daemon that is started anew finds the same one at it.
    """

    def __init__(self, runtime: Runtime) -> None:
        self.here: set[int] = set()
        self._runtime = runtime

    def has(self, row: BenchmarkJob) -> bool:
        """Whether the job may measure now; one that shares its turns with none always may."""
        if not row.turns:
            return True
        with self._runtime.store.read() as db:
            living = _living(db, row)
        return all(one.id in self.here for one in living) and next_of(living).id == row.id

    def launches(self, row: BenchmarkJob) -> list[Launch]:
        """Those of the other jobs that are still measured."""
        if not row.turns:
            return []
        with self._runtime.store.read() as db:
            found = [db.get(Launch, one.launch_id) for one in _living(db, row) if one.id != row.id]
        return [launch for launch in found if launch is not None]


def _living(db: Session, row: BenchmarkJob) -> list[BenchmarkJob]:
    query = select(BenchmarkJob).where(col(BenchmarkJob.id).in_(row.turns or ()), col(BenchmarkJob.state).in_(LIVING))
    return list(db.exec(query).all()) or [row]
