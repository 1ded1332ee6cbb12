"""The row of a benchmark that Sitrep runs: what was asked for, how far it is, and what came of it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field
from sqlmodel import Field as Column

from sitrepd.benchmarks.running.states import LIVING as LIVING
from sitrepd.benchmarks.running.states import JobState
from sitrepd.storage import ids
from sitrepd.storage.base import Row, json_field, link, now_field, time_field


class BenchmarkJob(Row, table=True):
    """`run` counts the repeats from 1, 0 is the warm-up; `before` is what the server told as that run began.

    The process of the present run has `folder`, which is written down before it starts: so no daemon starts it twice.
    """

    __tablename__ = "benchmark_job"

    id: int | None = Column(default=None, primary_key=True)
    session_id: int | None = Column(default=None, foreign_key="session.id", index=True)
    launch_id: int = link("launch")
    provenance: str
    created_at: datetime = now_field()
    started_at: datetime | None = time_field()
    ended_at: datetime | None = time_field()
    state: str = Column(default="queued", index=True)
    tool: str
    asked: dict[str, Any] = json_field()
    run: int = 0
    done: int | None = None
    total: int | None = None
    folder: str | None = None
    before: dict[str, Any] | None = json_field(nullable=True)
    benchmarks: list[int] = json_field()
    note: str | None = None
    error: str | None = None
    stop_asked: bool = False
    trial: int | None = Column(default=None, index=True)
    turns: list[int] | None = json_field(nullable=True)


class JobOut(BaseModel):
    """A benchmark that is run, or was: how far it is, and the runs that it has measured."""

    id: int
    session: str | None = None
    launch: str
    tool: str
    name: str | None = None
    preset: str | None = None
    state: JobState
    repeat: int
    run: int = Field(0, description="Which of the repeats, from 1; 0 is the warm-up.")
    done: int | None = Field(None, description="Requests of the present run that were answered, of `total`.")
    total: int | None = None
    benchmarks: list[str] = Field(default_factory=list, description="The runs that are measured, in order.")
    note: str | None = None
    error: str | None = Field(None, description="Why it has failed, or is lost.")
    trial: int | None = None
    turns: list[int] | None = Field(
        None, description="The jobs that are measured in turns, this one among them; it waits where it has no `folder`."
    )
    created_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    folder: str | None = Field(None, description="Where the present run writes what it prints.")

    @property
    def is_living(self) -> bool:
        return self.state in LIVING


def job_out(row: BenchmarkJob) -> JobOut:
    asked = row.asked
    return JobOut(
        id=row.id or 0,
        session=ids.public_id("S", row.session_id) if row.session_id else None,
        launch=ids.public_id("L", row.launch_id),
        tool=row.tool,
        name=asked.get("name"),
        preset=asked.get("preset"),
        state=row.state,
        repeat=asked.get("repeat") or 1,
        run=min(row.run, asked.get("repeat") or 1),
        done=row.done,
        total=row.total,
        benchmarks=[ids.public_id("B", number) for number in row.benchmarks or ()],
        note=row.note,
        error=row.error,
        trial=row.trial,
        turns=row.turns or None,
        created_at=row.created_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        folder=row.folder,
    )
