"""Sweeps and their trials: told, imported, or run by the daemon, which then keeps in these rows how far it is."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from sitrepd.shapes import BenchmarkRef, FactIn, FactOut, Flag, LaunchRef, Name, Shape, SweepRef, Text, example, partial
from sitrepd.storage.base import FactRow, json_field, link, time_field

OVER = ("done", "stopped", "failed")
"""States of a sweep in which nothing more is started."""


class Sweep(FactRow, table=True):
    """`plan` is there only of a sweep that the daemon runs; `halt` says that its present trial is not to be finished.

    `result` is what the trials measured so far, compared.
    """

    name: str | None = None
    template: Any = json_field(nullable=True)
    parameters: Any = json_field(nullable=True)
    constraints: Any = json_field(nullable=True)
    state: str | None = None
    why: str | None = None
    plan: dict[str, Any] | None = json_field(nullable=True)
    halt: bool | None = None
    started_at: datetime | None = time_field()
    ended_at: datetime | None = time_field()
    result: dict[str, Any] | None = json_field(nullable=True)


class SweepFields(Shape):
    name: Name | None = None
    template: Any | None = Field(None, description="The launch that the trials vary.")
    parameters: Any | None = Field(None, description="Names and their values.")
    constraints: Any | None = None
    state: Text | None = Field(None, description="planned, running, paused, done or stopped.")
    why: Text | None = Field(None, description="Why it is in that state.")


class SweepCreate(SweepFields, FactIn):
    model_config = example({"name": "steps", "parameters": {"speculative_num_steps": [1, 2, 3]}})


class SweepPublic(SweepFields, FactOut):
    started_at: datetime | None = None
    ended_at: datetime | None = None
    result: dict[str, Any] | None = Field(
        None,
        description="What its trials have measured, compared, of a sweep that was run here; /status has it of any.",
    )


SweepUpdate = partial(SweepFields, "SweepUpdate")


class Trial(FactRow, table=True):
    """`launch_number` is given out before anything is started, and `boot` is the machine's boot in which that was: by
    both, the next daemon knows whether the trial goes on, or is to be repeated. `outcome` is the state that it will end
    with, known before its server is stopped."""

    sweep_id: int | None = link("sweep")
    launch_id: int | None = link("launch")
    benchmarks: list[str] = json_field()
    state: str | None = None
    name: str | None = None
    baseline: bool | None = None
    settings: dict[str, Any] | None = json_field(nullable=True)
    why: str | None = None
    place: int | None = None
    step: str | None = None
    outcome: str | None = None
    attempt: int | None = None
    launch_number: int | None = None
    boot: str | None = None
    started_at: datetime | None = time_field()
    ended_at: datetime | None = time_field()


class TrialFields(Shape):
    sweep: SweepRef
    launch: LaunchRef | None = None
    benchmarks: list[BenchmarkRef] = Field(default_factory=list)
    state: Text | None = Field(None, description="planned, running, done, failed or skipped.")
    name: Name | None = None
    baseline: Flag | None = Field(None, description="The trial that the others are compared with.")
    settings: dict[str, Any] | None = Field(None, description="What it sets; null is a flag that is left out.")
    why: Text | None = Field(None, description="Why it failed, or was skipped.")


class TrialCreate(TrialFields, FactIn):
    model_config = example({"sweep": "W1", "launch": "L3", "benchmarks": ["B4"], "state": "done"})


class TrialPublic(TrialFields, FactOut):
    step: str | None = Field(None, description="What is being done: waiting, launching, loading, measuring, stopping.")
    attempt: int | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None


TrialUpdate = partial(TrialFields, "TrialUpdate")
