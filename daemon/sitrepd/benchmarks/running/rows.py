"""What is written down of a benchmark that is run, so that a later daemon can go on with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlmodel import Session

from sitrepd import redact
from sitrepd.benchmarks import service
from sitrepd.benchmarks.models import Benchmark
from sitrepd.benchmarks.parsers import ParsedBenchmark
from sitrepd.benchmarks.running import measured
from sitrepd.benchmarks.running.asked import BenchAsked
from sitrepd.benchmarks.running.counters import Reading
from sitrepd.benchmarks.running.models import LIVING, BenchmarkJob
from sitrepd.clock import iso, utc_now
from sitrepd.facts import Scope
from sitrepd.launches.models import Launch
from sitrepd.storage import events, ids


def asked_of(row: BenchmarkJob) -> BenchAsked:
    """As it was asked for; secrets in it are references."""
    return BenchAsked.model_validate(row.asked)


def job(db: Session, number: int) -> BenchmarkJob | None:
    return db.get(BenchmarkJob, number)


def insert(
    db: Session, asked: Sequence[BenchAsked], launches: Sequence[Launch], session_id: int | None, provenance: str
) -> list[BenchmarkJob]:
    """A job for each; several are measured in turns, in this order."""
    first = ids.allocate(db, "benchmark_job", len(asked))
    numbers = [first + at for at in range(len(asked))]
    return [
        _insert(db, number, one, launch, session_id, provenance, numbers if len(asked) > 1 else None)
        for number, one, launch in zip(numbers, asked, launches, strict=True)
    ]


def _insert(
    db: Session, number: int, asked: BenchAsked, launch: Launch, session_id: int | None, provenance: str,
    turns: list[int] | None,
) -> BenchmarkJob:  # fmt: skip
    told = asked.model_dump(mode="json", exclude_none=True)
    told["flags"] = redact.redact_argv(asked.flags)
    told["env"] = redact.redact_env(asked.env or {}) or None
    for name in ("config", "workload"):
        told[name] = redact.redact_json(told[name])
    row = BenchmarkJob(
        id=number, session_id=session_id if session_id is not None else launch.session_id,
        launch_id=launch.id or 0, provenance=provenance, turns=turns,
        tool=asked.tool, asked=told, trial=asked.trial, run=0 if _warms(asked) else 1,
        benchmarks=[],
    )  # fmt: skip
    db.add(row)
    db.flush()
    _note(db, row)
    return row


def _warms(asked: BenchAsked) -> bool:
    return asked.warmup if asked.warmup is not None else asked.tool != "command"


def begin_run(db: Session, number: int, folder: str, before: Reading) -> None:
    """Where the process of the present run will be, before there is one."""
    row = db.get(BenchmarkJob, number)
    if row is None:
        return
    row.state = "warming" if row.run == 0 else "running"
    row.folder, row.before = folder, {**before.to_json(), "at": iso(utc_now())}
    row.started_at = row.started_at or utc_now()
    row.done = row.total = None
    db.add(row)
    _note(db, row)


def progress(db: Session, number: int, done: int | None, total: int | None) -> None:
    row = db.get(BenchmarkJob, number)
    if row is not None:
        row.done, row.total = done, total
        db.add(row)


def warmed(db: Session, number: int) -> None:
    """The warm-up is over."""
    row = db.get(BenchmarkJob, number)
    if row is not None:
        row.run, row.folder, row.before = 1, None, None
        db.add(row)


def store_run(
    db: Session,
    scope: Scope,
    number: int,
    runs: Sequence[ParsedBenchmark],
    marks: Sequence[str],
    original: dict[str, Any] | None,
) -> list[int]:
    """The benchmarks of a run that has ended, and in the same transaction that it has; their numbers."""
    row = db.get(BenchmarkJob, number)
    if row is None:
        return []
    launch = db.get(Launch, row.launch_id)
    name = measured.name_of(runs, row.asked, ids.public_id("L", row.launch_id), launch.name if launch else None)
    told = service.Told(
        (original or {}).get("kept") or "", ids.public_id("L", row.launch_id), name,
        bool(row.asked.get("baseline")), tuple(marks), original,
    )  # fmt: skip
    found = [service.store_one(db, scope, _own(db, scope, run, row), told) for run in runs]
    row.benchmarks = [*(row.benchmarks or ()), *(one.id or 0 for one in found)]
    row.run, row.folder, row.before = row.run + 1, None, None
    db.add(row)
    _note(db, row)
    return [one.id or 0 for one in found]


def _own(db: Session, scope: Scope, run: ParsedBenchmark, row: BenchmarkJob) -> ParsedBenchmark:
    """One that measured the very same as another is a repeat, and no second import of it."""
    twin = f"job {row.id}, run {row.run}"
    return run if service.stored(db, scope, run) is None else replace(run, twin=twin)


def ask_stop(db: Session, number: int) -> None:
    row = db.get(BenchmarkJob, number)
    if row is not None and row.state in LIVING:
        row.stop_asked = True
        db.add(row)


def end(db: Session, number: int, state: str, error: str | None) -> None:
    row = db.get(BenchmarkJob, number)
    if row is None or row.state not in LIVING:
        return
    row.state, row.error, row.ended_at = state, redact.redact_text(error) if error else None, utc_now()
    row.run = min(row.run, row.asked.get("repeat") or 1)
    row.folder = None if state == "done" else row.folder
    row.before = None
    db.add(row)
    _note(db, row)


def _note(db: Session, row: BenchmarkJob) -> None:
    """Who listens to changes of the launch learns of what is measured on it."""
    told = {"job": row.id, "state": row.state, "run": row.run, "repeat": row.asked.get("repeat") or 1}
    launch = ids.public_id("L", row.launch_id)
    events.record(db, "benchmark_job.changed", f"job {row.id}", row.session_id, launch=launch, **told)


def benchmarks_of(db: Session, row: BenchmarkJob) -> list[Benchmark]:
    return [found for number in row.benchmarks or () if (found := db.get(Benchmark, number)) is not None]
