"""A job that is being done: what the steps of its runs share."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from sitrepd.benchmarks.running import prepare
from sitrepd.benchmarks.running.asked import BenchAsked
from sitrepd.benchmarks.running.models import BenchmarkJob
from sitrepd.benchmarks.running.progress import Progress
from sitrepd.benchmarks.running.stopping import Stop
from sitrepd.errors import SitrepError
from sitrepd.launches.launchers.local import LocalLauncher
from sitrepd.launches.models import Launch
from sitrepd.runtime import Runtime
from sitrepd.storage import ids


class RunFailed(SitrepError):
    """A run that gave no result; `state` is failed or lost."""

    title = "The benchmark failed"


@dataclass(frozen=True)
class Job:
    """`progress` is what the present run has done."""

    runtime: Runtime
    launcher: LocalLauncher
    number: int
    asked: BenchAsked
    stop: Stop
    progress: Progress = field(default_factory=Progress)

    def launch(self, row: BenchmarkJob) -> Launch:
        """Its server, as it is now."""
        return prepare.read_launch(self.runtime, ids.public_id("L", row.launch_id))

    def folder(self, row: BenchmarkJob) -> Path:
        """Where its present run will be."""
        name = "warm-up" if row.run == 0 else f"run-{row.run}"
        return prepare.benchmarks_dir(self.runtime) / f"job-{self.number}" / name

    def which(self, row: BenchmarkJob) -> str:
        """Its present run, as the subject of a sentence."""
        if row.run == 0:
            return "The warm-up"
        return f"Run {row.run} of {self.asked.repeat}" if self.asked.repeat > 1 else "The run"


def begun_at(row: BenchmarkJob) -> datetime | None:
    """When its present run began."""
    told = (row.before or {}).get("at")
    return datetime.fromisoformat(told) if told else None
