"""What is asked for when a benchmark is to be run."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from sitrepd.benchmarks.running.states import ToolName as ToolName
from sitrepd.shapes import Flag, Name, Shape, Text, Whole, example

_MOST_REPEATS = 100
_MOST_LAUNCHES = 16
_NAME_OF_SEVERAL = 480
_MOST_HOURS_S = 7 * 24 * 3600.0


class BenchAsked(Shape):
    """A benchmark to run against a launch."""

    model_config = example({"launch": "L14", "preset": "quick", "repeat": 5})

    launch: Text = Field(description="The server to measure: its id.")
    also: list[Text] = Field(
        default_factory=list,
        max_length=_MOST_LAUNCHES - 1,
        description="More servers that are up at the same time: all are measured in turns, a job each.",
    )
    tool: ToolName = "sglang"
    preset: Name | None = Field(None, description="A named workload: quick, latency, throughput, or one of the user's.")
    flags: list[Text] = Field(
        default_factory=list,
        description="More flags for the tool; of `command` its words, in which {base_url}, {host}, {port}, {model}, "
        "{output} and {launch} are filled in.",
    )
    repeat: Whole = Field(1, ge=1, le=_MOST_REPEATS, description="How many times it is measured.")
    warmup: Flag | None = Field(
        None, description="Run it once unmeasured first, with few requests; true for all but `command` if absent."
    )
    name: Name | None = Field(
        None, description="What its runs are called; of several servers with the id of its own behind it."
    )
    config: dict[str, Any] = Field(default_factory=dict, description="Added to what is compared.")
    workload: dict[str, Any] = Field(default_factory=dict, description="Added to what was asked of the server.")
    mapping: Name | None = Field(None, description="Which fields of the JSON that a `command` writes are what.")
    baseline: Flag = Field(False, description="The others are compared with it: of several servers with the first.")
    session: Text | None = Field(None, description="The session that its runs belong to; the launch's if absent.")
    trial: Whole | None = None
    timeout_s: float | None = Field(
        None, gt=0, le=_MOST_HOURS_S, description="Seconds after which a single run is ended; two hours if absent."
    )
    wait_s: float = Field(
        0, ge=0, le=_MOST_HOURS_S, description="Seconds to wait until the server is ready; else it must be."
    )
    program: Text | None = Field(
        None,
        description="The file that starts the tool, where it is neither beside the launch's interpreter nor on the "
        "PATH; of `sglang` and `sglang-rust` another interpreter.",
    )
    path: Text | None = Field(None, description="More folders in which the tool is looked for, as PATH has them.")
    cwd: Text | None = Field(None, description="The folder that a `command` runs in.")
    env: dict[str, Text] | None = Field(None, description="Set in its environment.")

    def each(self) -> list[BenchAsked]:
        """What each of its servers is asked for."""
        if not self.also:
            return [self]
        return [self._of(launch, at) for at, launch in enumerate([self.launch, *self.also])]

    def _of(self, launch: str, at: int) -> BenchAsked:
        name = f"{self.name[:_NAME_OF_SEVERAL]} {launch.strip().upper()}" if self.name else None
        told: dict[str, Any] = {"launch": launch, "also": [], "name": name, "baseline": self.baseline and at == 0}
        return self.model_copy(update=told)
