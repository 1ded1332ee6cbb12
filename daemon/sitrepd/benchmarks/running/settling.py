"""What becomes of a run whose process has ended: its benchmarks are stored, or it is told why there are none."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlmodel import Session

from sitrepd.benchmarks import originals
from sitrepd.benchmarks.parsers import BenchmarkFileError, ParsedBenchmark
from sitrepd.benchmarks.running import counters, during, measured, prepare, rows
from sitrepd.benchmarks.running.counters import Reading
from sitrepd.benchmarks.running.folder import PRINTED, call_of, clean
from sitrepd.benchmarks.running.job import Job, RunFailed, begun_at
from sitrepd.benchmarks.running.models import BenchmarkJob
from sitrepd.benchmarks.running.target import find_target
from sitrepd.clock import utc_now
from sitrepd.errors import SitrepError
from sitrepd.facts import Scope
from sitrepd.launches.launchers.base import Exit
from sitrepd.launches.models import Launch
from sitrepd.storage import ids


async def settle(job: Job, row: BenchmarkJob, ended: Exit, others: Iterable[str]) -> None:
    """Store what it has measured, with `others` among what speaks against it; raises RunFailed where it has failed."""
    folder = Path(row.folder or "")
    try:
        await _judge(job, row, ended, others)
    except SitrepError:
        await asyncio.to_thread(clean, folder)
        raise
    await asyncio.to_thread(clean, folder, done=True)


async def _judge(job: Job, row: BenchmarkJob, ended: Exit, others: Iterable[str]) -> None:
    if ended.known and (ended.exit_code != 0 or ended.signal):
        raise RunFailed(await asyncio.to_thread(_why_failed, job, row, ended, job.launch(row)))
    if row.run == 0:
        await job.runtime.store.write_async(lambda db: rows.warmed(db, job.number))
        return
    until = ended.ended_at or utc_now()
    await asyncio.to_thread(job.progress.look, Path(row.folder or "") / PRINTED)
    await _take_in(job, row, ended, others, until)


def _why_failed(job: Job, row: BenchmarkJob, ended: Exit, launch: Launch) -> str:
    how = f"was ended by signal {ended.signal}" if ended.signal else f"ended with exit status {ended.exit_code}"
    gone = f" {ids.public_id('L', launch.id or 0)} has ended ({launch.state})." if launch.ended_at else ""
    return f"{job.which(row)} {how}.{gone}{measured.said(Path(row.folder or ''))}"


async def _take_in(job: Job, row: BenchmarkJob, ended: Exit, others: Iterable[str], until: datetime) -> None:
    launch = job.launch(row)
    try:
        runs, look, original = await asyncio.to_thread(_read, job, row, launch)
    except BenchmarkFileError as error:
        said = await asyncio.to_thread(measured.said, Path(row.folder or ""))
        if not ended.known:
            raise RunFailed(f"{job.which(row)} is lost: {ended.reason}{said}", state="lost") from error
        raise RunFailed(f"{job.which(row)} left no result that can be read: {error.wrong}.{said}") from error
    held = await asyncio.to_thread(_throttled, job, launch, begun_at(row) or until, until)
    marks = [*look.marks, *held, *sorted(others)]

    def store(db: Session) -> None:
        scope = Scope(job.runtime.registry, row.provenance, row.session_id)
        rows.progress(db, job.number, *job.progress.now)
        rows.store_run(db, scope, job.number, runs, marks, original)

    await job.runtime.store.write_async(store)
    job.runtime.activity.touch(row.session_id)


def _throttled(job: Job, launch: Launch, since: datetime, until: datetime) -> list[str]:
    with job.runtime.store.read() as db:
        return during.throttled(job.runtime, db, launch, since, until)


def _read(job: Job, row: BenchmarkJob, launch: Launch) -> tuple[list[ParsedBenchmark], during.During, dict[str, Any]]:
    """(its benchmarks, what happened to the server meanwhile, what was kept of the file); BenchmarkFileError."""
    folder = Path(row.folder or "")
    call = call_of(folder)
    data, name = measured.result_in(Path(call.get("output") or folder / "result.jsonl"), folder / PRINTED)
    name = f"benchmark job {row.id}, run {row.run}, {name}"
    mapping = prepare.read_mapping(job.runtime, job.asked.mapping) if job.asked.mapping else None
    parsed = measured.parse(data, name, mapping)
    look = _look_back(row, launch)
    total = job.progress.now[1] if len(parsed) == 1 else None
    asked = {**row.asked, "told": call.get("workload") or {}}
    runs = [measured.completed(run, total, look, asked, launch.settings) for run in parsed]
    return runs, look, originals.keep(prepare.originals_dir(job.runtime), data, name)


def _look_back(row: BenchmarkJob, launch: Launch) -> during.During:
    before = Reading.from_json(row.before)
    try:
        after = counters.read(find_target(launch), None)
    except SitrepError:
        after = Reading()
    return during.look_back(launch, before, after)
