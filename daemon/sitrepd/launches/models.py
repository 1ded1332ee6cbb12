"""Launches: one start of a server process each, told, imported or started by us."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field
from sqlmodel import Field as Column

from sitrepd.launches.states import ALIVE as ALIVE
from sitrepd.launches.states import State as State
from sitrepd.shapes import (
    FactIn,
    FactOut,
    Flag,
    HostRef,
    Instant,
    LaunchRef,
    ModelOrPath,
    Name,
    Number,
    Shape,
    Text,
    Whole,
    example,
)
from sitrepd.storage.base import BigKey, FactRow, Row, big_field, json_field, link, time_field
from sitrepd.storage.types import UTCDateTime

_MOST_PROCESSORS = 8192
Processor = Annotated[Whole, Field(ge=0, lt=_MOST_PROCESSORS)]


class Launch(FactRow, table=True):
    """`watched` is true only of a process on this host that we follow: an imported state is never a running process."""

    name: str | None = None
    engine: str | None = None
    command: str | None = None
    argv: list[str] | None = json_field(nullable=True)
    env: dict[str, str] | None = json_field(nullable=True)
    cwd: str | None = None
    host_id: int | None = link("host")
    log_path: str | None = None
    port: int | None = None
    model: str | None = None
    model_id: int | None = link("model")
    draft_model: str | None = None
    draft_model_id: int | None = link("model")
    from_launch_id: int | None = link("launch")
    state: str | None = None
    started_at: datetime | None = time_field()
    ready_at: datetime | None = time_field()
    ended_at: datetime | None = time_field()
    exit_code: int | None = None
    exit_signal: int | None = None
    failure: str | None = None
    suspect: str | None = None
    watched: bool = Column(default=False, index=True)
    process: dict[str, Any] | None = json_field(nullable=True)
    settings: dict[str, Any] | None = json_field(nullable=True)
    warnings: list[str] = json_field()
    throughput: dict[str, Any] | None = json_field(nullable=True)
    timings: dict[str, float] | None = json_field(nullable=True)
    ready_url: str | None = None
    ready_pattern: str | None = None
    log_position: dict[str, Any] | None = json_field(nullable=True)
    parser_state: dict[str, Any] | None = json_field(nullable=True)

    @property
    def pid(self) -> int | None:
        return (self.process or {}).get("pid")

    @property
    def log_problem(self) -> str | None:
        return (self.process or {}).get("log_problem")


class LaunchPhase(Row, table=True):
    __tablename__ = "launch_phase"

    id: int | None = Column(default=None, primary_key=True)
    launch_id: int = Column(default=0, foreign_key="launch.id", index=True)
    name: str
    started_at: datetime | None = time_field()
    ended_at: datetime | None = time_field()
    progress: float | None = None
    done: int | None = None
    total: int | None = None
    unit: str | None = None
    elapsed_s: float | None = None


class LaunchSize(Row, table=True):
    """A size that a log tells: KV tokens, bytes of weights, cache and graphs, of a rank and of target or draft."""

    __tablename__ = "launch_size"

    id: int | None = Column(default=None, primary_key=True)
    launch_id: int = Column(default=0, foreign_key="launch.id", index=True)
    name: str
    role: str = ""
    rank: str = ""
    value: int = Column(sa_type=big_field().sa_type)
    unit: str


class LaunchSample(Row, table=True):
    """What the server was doing in one second, from its batch lines; what they did not say is None."""

    __tablename__ = "launch_sample"

    id: int | None = Column(default=None, primary_key=True, sa_type=BigKey)
    launch_id: int = Column(default=0, foreign_key="launch.id", index=True)
    at: datetime = Column(sa_type=UTCDateTime, index=True)
    running: int | None = None
    queued: int | None = None
    token_usage: float | None = None
    gen_tok_s: float | None = None
    input_tok_s: float | None = None
    accept_len: float | None = None
    accept_rate: float | None = None


class Phase(Shape):
    name: Name
    started_at: Instant | None = None
    ended_at: Instant | None = None
    progress: Number | None = Field(None, description="0 to 1.")
    done: Whole | None = Field(None, description="Steps done, of `total`, in `unit` (shards, graphs).")
    total: Whole | None = None
    unit: Text | None = None
    elapsed_s: Number | None = Field(None, description="Seconds, where the engine printed them.")


class LaunchFields(Shape):
    name: Name | None = None
    engine: Name | None = Field(None, description="sglang, vllm, …; recognised from the command if absent.")
    command: Text | None = Field(None, description="A shell command line, as it would be pasted.")
    argv: list[Text] | None = None
    env: dict[str, Text] | None = None
    cwd: Text | None = None
    host: HostRef | None = None
    log_path: Text | None = None
    port: Whole | None = Field(None, ge=1, le=65535)
    model: ModelOrPath | None = Field(None, description="Id of a model card, or a path.")
    draft_model: ModelOrPath | None = None
    from_launch: LaunchRef | None = Field(None, description="The launch that this one repeats, perhaps changed.")
    state: State | None = None
    phases: list[Phase] = Field(default_factory=list)
    ready_at: Instant | None = None
    ended_at: Instant | None = None
    exit_code: Whole | None = None


class LaunchRecord(LaunchFields, FactIn):
    """A launch as told, by an import or by somebody who ran it elsewhere: a record, never a process of ours."""

    started_at: Instant | None = None
    exit_signal: Whole | None = None
    failure: Text | None = Field(None, description="The first cause that its log showed.")
    warnings: list[Text] = Field(default_factory=list, description="What the engine changed of what was asked.")


class LaunchCreate(LaunchFields, FactIn):
    """A launch to start, or with `start: false` one to record."""

    model_config = example(
        {"name": "3 steps", "command": "nohup python -m sglang.launch_server --model-path /m > s.log 2>&1 &"}
    )
    start: Flag = Field(True, description="False only records it.")
    ready_url: Text | None = Field(None, description="Answers 200 when ready; for engines we do not know.")
    ready_pattern: Text | None = Field(None, description="Regular expression of the log line that says ready.")
    umask: Whole | None = Field(None, ge=0, le=0o777, description="Of the caller.")
    limits: dict[str, list[Whole]] | None = Field(None, description="The caller's limits: name to [soft, hard].")
    nice: Whole | None = Field(None, ge=-20, le=19, description="The caller's niceness.")
    affinity: list[Processor] | None = Field(
        None,
        min_length=1,
        max_length=_MOST_PROCESSORS,
        description="The numbers of the processors that the caller may use.",
    )
    force: Flag = Field(False, description="Start it although its port is taken.")
    inherit_env: Flag = Field(True, description="Start from the daemon's environment and add `env` to it.")
    told_env: list[Text] | None = Field(
        None, description="Names in `env` that were set for this launch; the others are its caller's surroundings."
    )


class LaunchPublic(LaunchFields, FactOut):
    started_at: datetime | None = None
    exit_signal: int | None = None
    failure: str | None = Field(None, description="The first cause that the log shows.")
    suspect: str | None = Field(None, description="Why the present phase looks stuck.")
    watched: bool = Field(False, description="Whether it is a process on this host that is followed.")
    pid: int | None = None
    log_problem: str | None = Field(None, description="Why there is no log to read.")
    settings: dict[str, Any] | None = Field(None, description="Settings in effect, as the engine printed them.")
    warnings: list[str] = Field(default_factory=list, description="What the engine changed of what was asked.")
    throughput: dict[str, Any] | None = Field(
        None, description="The latest figures that the log shows; once it has ended also `life`, their means over it."
    )
    timings: dict[str, float] | None = Field(None, description="Seconds by step of the start, as the engine printed.")
    sizes: list[dict[str, Any]] = Field(default_factory=list)
    ready_url: str | None = None
    ready_pattern: str | None = None


class LaunchUpdate(Shape):
    """What may be changed of a launch by telling; what is observed is not told."""

    name: Name | None = None
    engine: Name | None = None
    model: ModelOrPath | None = None
    draft_model: ModelOrPath | None = None
    host: HostRef | None = None
    log_path: Text | None = None
    state: State | None = Field(None, description="Only of a launch that is not watched.")
    ready_at: Instant | None = None
    ended_at: Instant | None = None
    exit_code: Whole | None = None
