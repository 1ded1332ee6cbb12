"""What a backfill tells the daemon, and what the daemon remembers of it, so that twice is the same as once."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field
from sqlalchemy import UniqueConstraint
from sqlmodel import Field as Column

from sitrepd.agents.models import CommandCreate
from sitrepd.benchmarks.models import BenchmarkCreate, TrainingCreate
from sitrepd.findings.models import FindingCreate
from sitrepd.launches.models import LaunchRecord
from sitrepd.sessions.models import MessageCreate
from sitrepd.shapes import Instant, Name, Shape, Text, Whole
from sitrepd.storage.base import Row, link, now_field


class Backfilled(Row, table=True):
    """A fact that was read from a file: `key` says which one it is, `digest` what was told of it last."""

    __table_args__ = (UniqueConstraint("session_id", "key"),)

    id: int | None = Column(default=None, primary_key=True)
    session_id: int = link("session")
    key: str
    digest: str
    word: str
    fact_id: int
    path: str
    at: datetime = now_field()


class Size(Shape):
    name: Name
    role: Text = ""
    rank: Text = ""
    value: Whole
    unit: Text


class Told(Shape):
    key: Name = Field(description="Which fact it is, the same whenever its file is read again.")
    path: Text = Field(description="The file that it was read from.", min_length=1)


class ToldLaunch(Told):
    fact: LaunchRecord
    started_at: Instant | None = None
    settings: dict[str, Any] | None = None
    warnings: list[Text] = Field(default_factory=list)
    throughput: dict[str, Any] | None = None
    timings: dict[str, float] | None = None
    sizes: list[Size] = Field(default_factory=list)
    failure: Text | None = None


class ToldBenchmark(Told):
    fact: BenchmarkCreate
    launch: Name | None = Field(None, description="The key of its launch.")
    random_seed: Whole | None = Field(None, description="The seed that its server drew, to find a stored launch by.")


class ToldTraining(Told):
    fact: TrainingCreate


class ToldFinding(Told):
    fact: FindingCreate
    launches: list[Name] = Field(default_factory=list, description="Keys of the launches that show it.")


class ToldMessage(Told):
    """A message of a stored conversation; its number is the next one of the session."""

    fact: MessageCreate


class ToldCommand(Told):
    fact: CommandCreate
    results: list[Name] = Field(default_factory=list, description="Keys of the benchmarks that it printed.")


class BackfillIn(Shape):
    """A part of what was read; launches are told before what names them."""

    machine: Text | None = Field(None, description="Names the machine of the files as the daemon names its own.")
    host: Name | None = Field(None, description="The name of that machine.")
    launches: list[ToldLaunch] = Field(default_factory=list, max_length=1000)
    benchmarks: list[ToldBenchmark] = Field(default_factory=list, max_length=1000)
    trainings: list[ToldTraining] = Field(default_factory=list, max_length=1000)
    findings: list[ToldFinding] = Field(default_factory=list, max_length=1000)
    messages: list[ToldMessage] = Field(default_factory=list, max_length=1000)
    commands: list[ToldCommand] = Field(default_factory=list, max_length=1000)


class Settled(BaseModel):
    """What became of one fact: `observed` means that the daemon had watched that launch itself."""

    key: str
    id: str
    outcome: Literal["new", "updated", "known", "observed"]


class BackfillOut(BaseModel):
    session: str
    facts: list[Settled]
