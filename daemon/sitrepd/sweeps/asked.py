"""What is asked of a sweep: its file, or the same as flags."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from sitrepd.benchmarks.running.asked import ToolName
from sitrepd.launches.models import Processor
from sitrepd.shapes import Flag, Name, Number, Shape, Text, Whole, example

ABSENT = "absent"
Value = Flag | Whole | float | Text | None
MOST_TRIALS = 1000
_MOST_S = 30 * 24 * 3600.0


class TemplateIn(Shape):
    """The launch that the trials vary: a command as `sitrep launch` takes it, or a launch that is repeated."""

    launch: Text | None = Field(None, description="A launch whose command and environment are taken.")
    command: Text | None = Field(None, description="A shell line; {name} stands for a parameter.")
    argv: list[Text] | None = None
    cwd: Text | None = None
    env: dict[str, Text] = Field(default_factory=dict)
    set: dict[str, Value | list[Text]] = Field(default_factory=dict, description="Flags that all trials have.")
    unset: list[Text] = Field(default_factory=list, description="Flags that none has.")
    engine: Name | None = None
    port: Whole | None = Field(None, ge=1, le=65535)
    ready_url: Text | None = None
    ready_pattern: Text | None = None
    log_path: Text | None = None

    @model_validator(mode="after")
    def _is_one_thing(self) -> TemplateIn:
        if sum(told is not None for told in (self.launch, self.command, self.argv)) != 1:
            raise ValueError("give one of launch, command and argv")
        return self


class RangeIn(Shape):
    """Numbers from one to another, both included."""

    first: Number = Field(alias="from")
    last: Number = Field(alias="to")
    step: Number = Field(default=1)  # type: ignore[assignment]


class BenchIn(Shape):
    """One benchmark of each trial, as `sitrep bench run` takes it."""

    tool: ToolName = "sglang"
    preset: Name | None = None
    flags: list[Text] = Field(default_factory=list)
    repeat: Whole = Field(3, ge=1, le=100)
    warmup: Flag | None = None
    name: Name | None = Field(None, description="Wanted where there are several.")
    workload: dict[str, Any] = Field(default_factory=dict)
    mapping: Name | None = None
    timeout_s: float | None = Field(None, gt=0, le=_MOST_S)
    program: Text | None = Field(None, description="The file that starts the tool, where it is installed elsewhere.")
    cwd: Text | None = None
    env: dict[str, Text] | None = None


class EarlyStopIn(Shape):
    """A trial whose first repeats show that it cannot win is not measured to its end."""

    after: Whole = Field(1, ge=1, le=100, description="Repeats to look at first.")
    margin_percent: float = Field(5.0, ge=0, le=100, description="How far a mean of these may be off, at the least.")


class BudgetIn(Shape):
    """What is not exceeded; a trial that runs is finished."""

    trials: Whole | None = Field(None, ge=1, le=MOST_TRIALS)
    hours: float | None = Field(None, gt=0, le=24 * 365)


class SearchIn(Shape):
    """How the next trial is chosen; all but `grid` want a number of trials."""

    method: Literal["grid", "random", "tpe"] = "grid"
    trials: Whole | None = Field(None, ge=1, le=MOST_TRIALS)
    seed: Whole = 0


class CallerIn(Shape):
    """The surroundings of the one who asks, as with a launch; what is secret in them is not stored."""

    cwd: Text | None = None
    env: dict[str, Text] | None = None
    inherit_env: Flag = True
    umask: Whole | None = Field(None, ge=0, le=0o777)
    limits: dict[str, list[Whole]] | None = None
    nice: Whole | None = Field(None, ge=-20, le=19)
    affinity: list[Processor] | None = None


Values = Annotated[RangeIn | list[Value | list[Text]], Field()]


class SweepAsked(Shape):
    """A sweep file."""

    model_config = example(
        {
            "name": "EAGLE-3 steps",
            "template": {"launch": "L14"},
            "parameters": {"speculative-num-steps": {"from": 1, "to": 10}},
            "derived": {"speculative-num-draft-tokens": "speculative_num_steps + 1"},
            "benchmarks": [{"preset": "latency", "repeat": 5}],
        }
    )

    name: Name | None = None
    template: TemplateIn
    parameters: dict[Name, Values] = Field(
        min_length=1, description="Flags, environment variables (in capitals) or {placeholders}, with their values."
    )
    derived: dict[Name, Text] = Field(default_factory=dict, description="Settings that are computed from them.")
    constraints: list[Text] = Field(default_factory=list, description="What must hold of a combination.")
    baseline: dict[Name, Value | list[Text]] | None = Field(
        None, description="The settings of the trial that the others are compared with; it is the first."
    )
    benchmarks: list[BenchIn] = Field(min_length=1, max_length=20)
    metric: Name | None = Field(None, description="What decides; that of the session if absent.")
    order: Literal["given", "shuffled"] = "given"
    search: SearchIn | Literal["grid", "random", "tpe"] = "grid"
    early_stop: EarlyStopIn | Flag = False
    budget: BudgetIn = Field(default_factory=BudgetIn)
    ready_within_s: float | None = Field(
        None, gt=0, le=_MOST_S, description="Seconds after which a start is given up; from earlier starts if absent."
    )
    caller: CallerIn | None = None
    force: Flag = Field(False, description="Although the check of a trial says that it cannot start.")

    @property
    def searching(self) -> SearchIn:
        return SearchIn(method=self.search) if isinstance(self.search, str) else self.search

    @property
    def stopping(self) -> EarlyStopIn | None:
        if isinstance(self.early_stop, bool):
            return EarlyStopIn() if self.early_stop else None
        return self.early_stop
