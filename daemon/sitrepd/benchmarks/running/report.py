"""What a checkpoint says of benchmarks that run at this moment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlmodel import col, select

from sitrepd.benchmarks.running.models import LIVING, BenchmarkJob
from sitrepd.sections import Report, Section, of_now
from sitrepd.storage import ids


def now_sections(report: Report) -> list[Section]:
    """One item a job, in their order; how many requests are done would be another text each second."""
    items = list(_items(report))
    return [of_now(items)] if items else []


def _items(report: Report) -> Iterator[dict[str, Any]]:
    query = select(BenchmarkJob).where(
        col(BenchmarkJob.state).in_(LIVING), BenchmarkJob.session_id == report.session_id
    )
    for row in report.db.exec(query.order_by(col(BenchmarkJob.id))).all():
        yield {"kind": "benchmark_job", "ids": [ids.public_id("L", row.launch_id)], "job": row.id, "text": _text(row)}


def _text(row: BenchmarkJob) -> str:
    launch = ids.public_id("L", row.launch_id)
    what = f"{row.tool}, preset {row.asked['preset']}" if row.asked.get("preset") else row.tool
    repeat = row.asked.get("repeat") or 1
    if row.state == "queued":
        how = f"waits for its turn or for {launch} to be ready"
    elif row.turns and row.folder is None:
        how = f"waits for its turn, {min(row.run, repeat)} of {repeat} next"
    elif row.run == 0:
        how = f"is warming up, then {repeat} {'run' if repeat == 1 else 'runs'}"
    else:
        how = f"is in run {min(row.run, repeat)} of {repeat}"
    measured = ", ".join(ids.public_id("B", number) for number in row.benchmarks or ())
    so_far = f"; measured so far: {measured}" if measured else ""
    return f"Benchmark job {row.id} against {launch} ({what}) {how}{so_far}; `sitrep bench follow {row.id}`"
