"""What was read below the folders, before it is told: plain data that travels between processes and over HTTP."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

FIGURES = ("completed", "duration", "output_throughput")
"""What every result of a benchmark has, and no two runs have in common."""


@dataclass
class Start:
    """One start of a server, as its log shows it."""

    path: str
    key: str
    engine: str
    started_at: datetime | None
    ready_at: datetime | None
    last_at: datetime
    """Of its last line; of the file's last change where lines have no times."""
    timed: bool
    state: str
    settings: dict[str, Any] = field(default_factory=dict)
    phases: list[dict[str, Any]] = field(default_factory=list)
    sizes: list[dict[str, Any]] = field(default_factory=list)
    timings: dict[str, float] = field(default_factory=dict)
    throughput: dict[str, Any] | None = None
    warnings: list[str] = field(default_factory=list)
    failure: str | None = None
    cause: dict[str, Any] | None = None
    """The diagnosis of a failure: category, summary, cause, fix and evidence."""
    port: int | None = None
    line: int = 1
    alone: bool = True
    """Whether its log shows no other start."""
    traced: str | None = None
    """The command as a shell's trace has written it into the log."""
    command: dict[str, Any] | None = None
    """argv, env, cwd and command, where they are certain."""
    running: int | None = None
    """The process that still writes the log."""

    @property
    def model(self) -> str | None:
        told = self.settings.get("model_path") or self.settings.get("model") or self.settings.get("model_tag")
        return told if isinstance(told, str) else None

    @property
    def draft(self) -> str | None:
        told = self.settings.get("speculative_draft_model_path")
        return told if isinstance(told, str) and told != self.model else None

    @property
    def seed(self) -> int | None:
        told = self.settings.get("random_seed")
        return told if isinstance(told, int) and not isinstance(told, bool) else None


@dataclass
class Result:
    """One measured run; `fact` has the fields of a benchmark, `server` what it says of its server."""

    path: str
    key: str
    fact: dict[str, Any]
    server: dict[str, Any]
    ended_at: datetime
    """When the file was written last: the run ended then, or before where others follow in the file."""
    last: bool = True
    launch: str | None = None
    """The key of its start, where that is certain."""


@dataclass
class Run:
    """One training run; `fact` has the fields of a training."""

    path: str
    key: str
    fact: dict[str, Any]


@dataclass
class Passed:
    """A file that was not understood, or not wholly."""

    path: str
    reason: str


@dataclass
class Reading:
    """What one file gave."""

    path: str
    starts: list[Start] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    passed: list[Passed] = field(default_factory=list)


@dataclass
class Found:
    """All that was found below the folders."""

    folders: list[str]
    files: int = 0
    bytes: int = 0
    starts: list[Start] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    not_understood: list[Passed] = field(default_factory=list)
    passed_over: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def key_of(*parts: object) -> str:
    """By which a fact is found again when its file is read once more."""
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()


def figures(metrics: Mapping[str, Any]) -> tuple[str, ...] | None:
    """What tells a run from all others, as exact as it is printed; None where that is not told."""
    told = [_value(metrics.get(name)) for name in FIGURES]
    known = [value for value in told if value is not None]
    return tuple(f"{float(value):.2f}" for value in known) if len(known) == len(told) else None


def _value(metric: Any) -> Any:
    return metric.get("value") if isinstance(metric, Mapping) else getattr(metric, "value", None)
