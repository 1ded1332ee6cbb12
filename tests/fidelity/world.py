"""A session as it truly is: what holds, what is over, and the lines that tell it. It can go on, round after round."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

METRIC = "output_throughput"
OVER = ("refuted", "superseded")
LABELS = {"root_cause": "root cause", "rejected": "rejected option"}


@dataclass
class Directive:
    text: str
    active: bool = True


@dataclass
class Finding:
    kind: str
    title: str
    status: str = "confirmed"
    detail: str | None = None
    reason: str | None = None
    supersedes: Finding | None = None
    replaced: bool = False

    @property
    def over(self) -> bool:
        return self.replaced or self.status in OVER


@dataclass
class Step:
    text: str
    order: int
    state: str = "todo"

    @property
    def open(self) -> bool:
        return self.state in ("todo", "doing")


@dataclass
class Launch:
    """Told by `command`, or by `argv` and `env`."""

    name: str
    state: str
    log_path: str
    argv: list[str]
    env: dict[str, str] = field(default_factory=dict)
    command: str | None = None
    port: int = 30000

    @property
    def line(self) -> str:
        """What is to be pasted into a shell."""
        if self.command is not None:
            return self.command
        return " ".join([*(f"{name}={shlex.quote(value)}" for name, value in self.env.items()), shlex.join(self.argv)])

    @property
    def alive(self) -> bool:
        return self.state in ("loading", "ready")


@dataclass
class Run:
    name: str
    value: Decimal
    config: dict[str, Any] = field(default_factory=dict)
    launch: Launch | None = None
    baseline: bool = False
    comparable: bool = True
    workload: dict[str, Any] = field(default_factory=lambda: {"num_prompts": 64})
    note: str | None = None
    unit: str = "tok/s"
    others: dict[str, Decimal] = field(default_factory=dict)


@dataclass(frozen=True)
class Fact:
    """What one statement of a checkpoint must hold, character for character."""

    type: str
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Past:
    """A mark of what is over: each statement that has it must carry one of the words."""

    type: str
    mark: str
    words: tuple[str, ...]


@dataclass
class World:
    """`more` are lines of the other types, `extras` what is told by them; `decoys` stand in messages alone."""

    name: str
    goal: str
    directives: list[Directive] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    more: list[dict[str, Any]] = field(default_factory=list)
    extras: list[Fact] = field(default_factory=list)
    decoys: list[str] = field(default_factory=list)

    # --- what is true ----------------------------------------------------------------------------------------

    @property
    def best(self) -> Run:
        """The highest of the comparable runs of the baseline's workload."""
        workload = self.baseline.workload
        return max((run for run in self.runs if run.comparable and run.workload == workload), key=lambda run: run.value)

    @property
    def baseline(self) -> Run:
        return [run for run in self.runs if run.baseline][-1]

    @property
    def gain(self) -> str:
        return f"{(self.best.value / self.baseline.value - 1) * 100:+.1f} %"

    @property
    def next_step(self) -> Step:
        return min((step for step in self.steps if step.open), key=lambda step: step.order)

    @property
    def rejected(self) -> list[Finding]:
        return [one for one in self.findings if one.kind == "rejected" and not one.over]

    # --- what a checkpoint must hold -------------------------------------------------------------------------

    def pinned(self) -> Iterator[Fact]:
        """What must be there at every size, as long as there is room for it."""
        for launch in self.launches:
            if launch.alive:
                yield Fact("running", (launch.name, launch.state, launch.log_path))
        yield from (Fact("directive", (one.text,)) for one in self.directives if one.active)
        yield Fact("next_step", (self.next_step.text,))
        yield Fact("best", (self.best.name, f"{self.best.value} {self.best.unit}", METRIC, self.gain))
        if self.best.launch is not None:
            yield Fact("best_command", (self.best.launch.line,))
        for one in self.findings:
            if one.kind == "root_cause" and one.status == "confirmed" and not one.over:
                yield Fact("root_cause", (one.title, *([one.detail] if one.detail else []), "confirmed"))
        yield from (Fact("rejected", (one.title, str(one.reason))) for one in self.rejected)

    def others(self) -> Iterator[Fact]:
        """What is there as far as there is room."""
        yield Fact("goal", (self.goal,))
        yield from (Fact("later_step", (one.text,)) for one in self.steps if one.open and one is not self.next_step)
        yield from (Fact("running_command", (one.line,)) for one in self.launches if one.alive)
        for one in self.findings:
            if one.kind not in ("root_cause", "rejected") and not one.over:
                yield Fact(one.kind, (one.title, *([one.reason] if one.reason else [])))
        yield from (Fact("lesson", (one.title, one.status)) for one in self.findings if one.status == "refuted")
        for run in self.runs:
            if run.name != self.best.name:
                yield Fact("benchmark", (run.name, f"{run.value} {run.unit}"))
        yield from self.extras

    def past(self) -> Iterator[Past]:
        """What must not read as current."""
        yield from (Past("directive", one.text, ("taken back",)) for one in self.directives if not one.active)
        yield from (Past("finding", one.title, OVER) for one in self.findings if one.over)
        yield from (Past("step", one.text, ("done", "dropped")) for one in self.steps if not one.open)
        for launch in self.launches:
            if not launch.alive:
                yield Past("launch", launch.name, ("exited", "failed", "lost", "ended"))
        for run in self.runs:
            if not run.comparable:
                yield Past("benchmark", run.name, ("not comparable",))
            elif run.workload != self.baseline.workload:
                yield Past("benchmark", run.name, ("workload",))

    # --- lines -----------------------------------------------------------------------------------------------

    def lines(self) -> Iterator[dict[str, Any]]:
        """The session file; what names something may stand before it."""
        yield {"type": "session", "key": "session", "name": self.name, "goal": self.goal}
        yield from ({"type": "directive", "text": one.text, "active": one.active} for one in self.directives)
        yield from (self.finding_line(one) for one in self.findings)
        for step in self.steps:
            yield {"type": "next_step", "text": step.text, "order": step.order, "state": step.state}
        yield from (launch_line(one) | {"key": key(one.name)} for one in self.launches)
        yield from (run_line(one) | {"key": key(one.name)} for one in self.runs)
        yield from self.more

    def finding_line(self, one: Finding) -> dict[str, Any]:
        line = {"type": "finding", "key": key(one.title), "kind": one.kind, "title": one.title, "status": one.status}
        line |= {name: value for name in ("detail", "reason") if (value := getattr(one, name)) is not None}
        return line | ({"supersedes": key(one.supersedes.title)} if one.supersedes is not None else {})


def key(name: str) -> str:
    """A key that is no public id, whatever the name is."""
    return f"#{name}"


def launch_line(one: Launch) -> dict[str, Any]:
    line = {
        "type": "launch", "name": one.name, "engine": "sglang", "state": one.state, "log_path": one.log_path,
        "port": one.port,
    }  # fmt: skip
    return line | ({"command": one.command} if one.command is not None else {"argv": one.argv, "env": one.env})


def run_line(one: Run, launch: str | None = None) -> dict[str, Any]:
    metrics: dict[str, Any] = {METRIC: {"value": one.value, "unit": one.unit, "better": "higher"}}
    metrics |= {name: {"value": value, "unit": "ms"} for name, value in one.others.items()}
    line: dict[str, Any] = {"type": "benchmark", "name": one.name, "config": one.config, "workload": one.workload}
    line |= {"metrics": metrics, "baseline": one.baseline, "comparable": one.comparable}
    line |= {"note": one.note} if one.note else {}
    if one.launch is not None:
        line["launch"] = launch or key(one.launch.name)
    return line
