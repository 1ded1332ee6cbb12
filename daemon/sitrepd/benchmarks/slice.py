"""The benchmarks slice, as the registry sees it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from sitrepd.benchmarks import children as c
from sitrepd.benchmarks import models as m
from sitrepd.benchmarks.trainings import batches
from sitrepd.facts import Child, Noun
from sitrepd.slices import Slice, late

if TYPE_CHECKING:
    from sitrepd.runtime import Runtime
    from sitrepd.services import Service

BENCHMARK = Noun(
    "benchmark", "benchmarks", "B", m.Benchmark, m.BenchmarkCreate, m.BenchmarkUpdate, m.BenchmarkPublic,
    "One measured run against a launch: workload, metrics, raw artifact.",
    children=(
        Child("metrics", m.BenchmarkMetric, "benchmark_id", partial(c.metric_rows, m.BenchmarkMetric), c.measures),
        Child("samples", m.BenchmarkSample, "benchmark_id", c.sample_rows, c.samples),
    ),
)  # fmt: skip
PROFILE = Noun(
    "profile", "profiles", "P", m.Profile, m.ProfileCreate, m.ProfileUpdate, m.ProfilePublic,
    "Time per phase inside a launch or a benchmark.",
    children=(Child("phases", m.ProfilePhaseRow, "profile_id", c.profile_rows, c.profile_phases),),
)  # fmt: skip
TRAINING = Noun(
    "training", "trainings", "T", m.Training, m.TrainingCreate, m.TrainingUpdate, m.TrainingPublic,
    "Metrics of a training job, by epoch or step.",
    children=(Child("points", m.TrainingBatch, "training_id", batches.rows_of, batches.points_of),),
    # Numbers by the hundred thousand, which nobody looks for by their words.
    unsearched=("points",),
)  # fmt: skip
REFERENCE = Noun(
    "reference", "references", "R", m.Reference, m.ReferenceCreate, m.ReferenceUpdate, m.ReferencePublic,
    "A result that somebody else published.",
    children=(
        Child("metrics", m.ReferenceMetric, "reference_id", partial(c.metric_rows, m.ReferenceMetric), c.measures),
    ),
)  # fmt: skip


def _services(runtime: Runtime) -> Sequence[Service]:
    from sitrepd.benchmarks.running.service import BenchmarkJobs
    from sitrepd.benchmarks.watch import BenchmarkFiles

    return BenchmarkFiles(runtime), BenchmarkJobs(runtime)


SLICE = Slice(
    "benchmarks",
    (BENCHMARK, PROFILE, TRAINING, REFERENCE),
    routers=late("sitrepd.benchmarks.routes", "routers"),
    services=_services,
    report=late("sitrepd.benchmarks.report", "report"),
    restore=late("sitrepd.benchmarks.restore", "restore"),
)
