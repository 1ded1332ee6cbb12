"""What is read from a result file, and the error of a file that cannot be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sitrepd.benchmarks.metrics import Metric
from sitrepd.errors import SitrepError
from sitrepd.redact import redact_text


class BenchmarkFileError(SitrepError):
    """A result file that cannot be read: `wrong` in `line` (from 1; None is all of it), and what is `wanted`."""

    status = 422
    title = "Not a benchmark result"

    def __init__(self, filename: str, line: int | None, wrong: str, wanted: str) -> None:
        self.line, self.wrong, self.wanted = line, redact_text(wrong), wanted
        place = filename if line is None else f"{filename}, line {line}"
        super().__init__(f"{place}: {self.wrong}; wanted: {wanted}. Nothing was stored.", line=line)


@dataclass(frozen=True)
class ServerFacts:
    """What the result says of its server, to find the launch; `random_seed` is drawn anew at each start, and logged."""

    host: str | None = None
    port: int | None = None
    model_path: str | None = None
    draft_model_path: str | None = None
    version: str | None = None
    random_seed: int | None = None
    launch_command: str | None = None


@dataclass(frozen=True)
class ParsedBenchmark:
    """One measured run as its tool wrote it down, free of secrets; `digest` is the SHA-256 of the whole file."""

    tool: str
    name: str
    config: dict[str, Any]
    workload: dict[str, Any]
    metrics: tuple[Metric, ...]
    notes: tuple[str, ...]
    server: ServerFacts
    digest: str
    line: int
    twin: str | None = None
    """Tells runs apart that measured exactly the same, where these are two all the same."""
    written: str | None = None
    """`digest_of` the run as its tool wrote it, where more has been added since: its file is known by that."""
    date: str | None = None
    """When it ended, as its tool wrote it, by the clock of the machine that measured."""
