"""Benchmarks, profiles, training runs, and references."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator
from sqlalchemy import Index
from sqlmodel import Field as Column

from sitrepd.benchmarks.running.models import BenchmarkJob as BenchmarkJob
from sitrepd.shapes import (
    BenchmarkRef,
    Count,
    FactIn,
    FactOut,
    Flag,
    LaunchRef,
    Metrics,
    ModelOrPath,
    Name,
    Number,
    Shape,
    Text,
    example,
    partial,
)
from sitrepd.storage.base import FactRow, Row, json_field, link


class MetricColumns(Row):
    """A value: `text` as it was told, `value` to compute with."""

    id: int | None = Column(default=None, primary_key=True)
    name: str
    text: str
    value: float
    unit: str | None = None
    better: str | None = None


class Benchmark(FactRow, table=True):
    name: str | None = None
    launch_id: int | None = link("launch")
    tool: str | None = None
    baseline: bool = False
    comparable: bool = True
    config: dict[str, Any] = json_field()
    workload: dict[str, Any] = json_field()
    note: str | None = None
    marks: list[str] | None = json_field(nullable=True)
    artifact: str | None = None
    digest: str | None = Column(default=None, index=True)
    original: dict[str, Any] | None = json_field(nullable=True)


class BenchmarkMapping(Row, table=True):
    """Where the fields of somebody's own JSON or CSV have what a benchmark has; see `parsers.mapped`."""

    __tablename__ = "benchmark_mapping"

    name: str = Column(primary_key=True)
    fields: dict[str, Any] = json_field()


class BenchmarkMetric(MetricColumns, table=True):
    __tablename__ = "benchmark_metric"
    # A comparison reads one metric of each run, and a run may have fifty.
    __table_args__ = (Index("ix_benchmark_metric_benchmark_id_name", "benchmark_id", "name"),)

    benchmark_id: int = Column(default=0, foreign_key="benchmark.id")


class BenchmarkSample(Row, table=True):
    """Repeated values of one metric, in the order in which they were measured."""

    __tablename__ = "benchmark_sample"

    id: int | None = Column(default=None, primary_key=True)
    benchmark_id: int = Column(default=0, foreign_key="benchmark.id", index=True)
    name: str
    texts: list[str] = json_field()


class BenchmarkFields(Shape):
    name: Name | None = None
    launch: LaunchRef | None = Field(None, description="The server it ran against.")
    tool: Text | None = None
    baseline: Flag = False
    comparable: Flag = Field(True, description="False, with the why in `note`, keeps it out of the comparison.")
    config: dict[str, Any] = Field(default_factory=dict, description="What is compared: the settings that differ.")
    workload: dict[str, Any] = Field(default_factory=dict, description="What was asked of the server.")
    metrics: Metrics = Field(default_factory=dict)
    samples: dict[Name, list[Number]] = Field(default_factory=dict)
    note: Text | None = None
    marks: list[Text] = Field(
        default_factory=list,
        description="What speaks against it, such as `3 requests failed`: sets it apart from the other repeats.",
    )
    artifact: Text | None = Field(None, description="Path of the raw result.")


class BenchmarkCreate(BenchmarkFields, FactIn):
    model_config = example(
        {
            "name": "EAGLE-3, 2 steps",
            "config": {"speculative_algorithm": "EAGLE3", "speculative_num_steps": 2},
            "metrics": {"output_throughput": {"value": 94.0, "unit": "tok/s", "better": "higher"}},
        }
    )


class BenchmarkPublic(BenchmarkFields, FactOut):
    digest: str | None = Field(None, description="SHA-256 of what was measured: the same run is stored once.")
    original: dict[str, Any] | None = Field(
        None, description="The file that it was read from: `sha256`, `bytes`, `name`, and whether it is `kept`."
    )


BenchmarkUpdate = partial(BenchmarkFields, "BenchmarkUpdate")


class Profile(FactRow, table=True):
    name: str | None = None
    tool: str | None = None
    note: str | None = None
    artifact: str | None = None
    launch_id: int | None = link("launch")
    benchmark_id: int | None = link("benchmark")


class ProfilePhaseRow(Row, table=True):
    __tablename__ = "profile_phase"

    id: int | None = Column(default=None, primary_key=True)
    profile_id: int = Column(default=0, foreign_key="profile.id", index=True)
    name: str
    group: str | None = None
    share: str | None = None
    calls: int | None = None
    total_ms: str | None = None
    mean_ms: str | None = None


class ProfilePhase(Shape):
    name: Name
    group: Name | None = Field(None, description="What it is a part of, such as `GPU kernels`.")
    share: Number | None = Field(
        None, description="Of the whole in per cent; computed within its group if absent. Parts may overlap."
    )
    calls: Count | None = None
    total_ms: Number | None = None
    mean_ms: Number | None = None


class ProfileFields(Shape):
    name: Name | None = None
    tool: Text | None = Field(None, description="What measured it.")
    note: Text | None = None
    artifact: Text | None = Field(None, description="Path of what it was read from.")
    launch: LaunchRef | None = None
    benchmark: BenchmarkRef | None = None
    phases: list[ProfilePhase] = Field(min_length=1)


class ProfileCreate(ProfileFields, FactIn):
    model_config = example({"phases": [{"name": "verify", "calls": 400, "total_ms": 8204.1, "mean_ms": 20.5}]})


class ProfilePublic(ProfileFields, FactOut):
    pass


ProfileUpdate = partial(ProfileFields, "ProfileUpdate")


class Training(FactRow, table=True):
    name: str | None = None
    model: str | None = None
    model_id: int | None = link("model")
    data: Any = json_field(nullable=True)
    note: str | None = None


class TrainingBatch(Row, table=True):
    """Points that were told together, as columns of one length; numbers with the decimals that they were told with."""

    __tablename__ = "training_batch"

    id: int | None = Column(default=None, primary_key=True)
    training_id: int = Column(default=0, foreign_key="training.id", index=True)
    steps: list[int | None] | None = json_field(nullable=True)
    epochs: list[str | None] | None = json_field(nullable=True)
    metrics: dict[str, list[str | None]] = json_field()
    units: dict[str, list[str | None]] = json_field()
    """The unit of a metric and the direction in which it is better, of those that have one of the two."""


class TrainingPoint(Shape):
    epoch: Number | None = None
    step: Count | None = None
    metrics: Metrics

    @model_validator(mode="after")
    def _has_place(self) -> TrainingPoint:
        if self.epoch is None and self.step is None:
            raise ValueError("a point needs an epoch or a step")
        return self


class TrainingFields(Shape):
    name: Name | None = None
    model: ModelOrPath | None = Field(None, description="Id of a model card, or a path.")
    points: list[TrainingPoint] = Field(default_factory=list)
    data: Any | None = Field(None, description="What it was trained on.")
    note: Text | None = None


class TrainingCreate(TrainingFields, FactIn):
    model_config = example({"name": "drafter", "points": [{"epoch": 4, "metrics": {"accept_rate": 0.47}}]})


class TrainingPublic(TrainingFields, FactOut):
    pass


TrainingUpdate = partial(TrainingFields, "TrainingUpdate")


class Reference(FactRow, table=True):
    name: str
    source: str | None = None
    model: str | None = None
    hardware: str | None = None
    config: dict[str, Any] | None = json_field(nullable=True)
    workload: dict[str, Any] | None = json_field(nullable=True)
    note: str | None = None


class ReferenceMetric(MetricColumns, table=True):
    __tablename__ = "reference_metric"

    reference_id: int = Column(default=0, foreign_key="reference.id", index=True)


class ReferenceFields(Shape):
    name: Name
    source: Text | None = Field(None, description="Who published it, and where.")
    metrics: Metrics = Field(default_factory=dict)
    model: Text | None = Field(None, description="What model it was measured with.")
    hardware: Text | None = Field(None, description="On what, such as `8 × NVIDIA H200`.")
    config: dict[str, Any] = Field(default_factory=dict, description="The settings that it was measured with.")
    workload: dict[str, Any] = Field(default_factory=dict, description="What was asked of the server.")
    note: Text | None = None


class ReferenceCreate(ReferenceFields, FactIn):
    model_config = example({"name": "AQ-MedAI drafter", "source": "AQ-MedAI"})


class ReferencePublic(ReferenceFields, FactOut):
    pass


ReferenceUpdate = partial(ReferenceFields, "ReferenceUpdate")
