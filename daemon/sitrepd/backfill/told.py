"""What was found, in the words of the API, and in those of the report."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from sitrepd.backfill import tie
from sitrepd.backfill.found import Found, Result, Run, Start
from sitrepd.clock import iso
from sitrepd.launches.engines import engine_named

_ENDINGS = (".gz", ".bz2", ".xz", ".log", ".out", ".err", ".txt")
_SAY_NOTHING = ("server", "sglang", "vllm", "log", "output", "stdout", "stderr", "nohup", "out")
_LAUNCHES, _BENCHMARKS, _FINDINGS, _POINTS = 20, 20, 50, 1000
"""How many go into one transaction: others who write wait no longer than for so many."""


def wanted(found: Found, *, followed: bool) -> list[Start]:
    """The starts to tell: those that still run are left to a daemon that follows them itself."""
    return [start for start in found.starts if not (followed and start.running)]


def tell(
    post: Callable[[dict[str, Any]], Sequence[dict[str, str]]], found: Found, starts: Sequence[Start]
) -> dict[str, dict[str, str]]:
    """What became of each fact, by its key; launches first, for the others name them.

    A launch that the daemon has watched itself it has diagnosed itself too.
    """
    settled: dict[str, dict[str, str]] = {}

    def told(kind: str, parts: Iterator[list[dict[str, Any]]]) -> None:
        for part in parts:
            settled.update({one["key"]: one for one in post({kind: part})})

    told("launches", launches(starts))
    told("benchmarks", benchmarks(found.results))
    told("trainings", trainings(found.runs))
    told("findings", findings([start for start in starts if settled[start.key]["outcome"] != "observed"]))
    return settled


def launches(starts: Sequence[Start]) -> Iterator[list[dict[str, Any]]]:
    """In parts, each of them soon stored."""
    yield from _parts([launch(start) for start in starts], _LAUNCHES)


def benchmarks(results: Sequence[Result]) -> Iterator[list[dict[str, Any]]]:
    yield from _parts([benchmark(result) for result in results], _BENCHMARKS)


def findings(starts: Sequence[Start]) -> Iterator[list[dict[str, Any]]]:
    yield from _parts([plain(one) for one in tie.failures(starts)], _FINDINGS)


def trainings(runs: Sequence[Run]) -> Iterator[list[dict[str, Any]]]:
    part: list[dict[str, Any]] = []
    points = 0
    for run in runs:
        size = len(run.fact["points"])
        if part and points + size > _POINTS:
            yield part
            part, points = [], 0
        part.append({"key": run.key, "path": run.path, "fact": plain(run.fact)})
        points += size
    if part:
        yield part


def launch(start: Start) -> dict[str, Any]:
    """A start as a told launch; what its log does not say is left out."""
    command = start.command or {}
    model, draft, port = start.model, start.draft, start.port
    if command.get("argv"):
        facts = engine_named(start.engine).describe(command["argv"], command.get("env") or {})
        model, draft = model or facts.model_path, draft or facts.draft_model_path
        port = port or facts.port
    ended = start.state in ("failed", "exited")
    fact = {
        "name": name_of(start), "engine": start.engine, **command, "log_path": start.path, "port": port,
        "model": model, "draft_model": draft, "state": _state(start), "phases": start.phases,
        "ready_at": start.ready_at, "ended_at": start.last_at if ended else None,
        "at": start.started_at or start.last_at, "observed_at": start.last_at,
    }  # fmt: skip
    told = {
        "key": start.key, "path": start.path, "fact": _without_none(fact), "started_at": start.started_at,
        "settings": start.settings or None, "warnings": start.warnings, "throughput": start.throughput,
        "timings": start.timings or None, "sizes": start.sizes, "failure": start.failure,
    }  # fmt: skip
    return dict(plain(_without_none(told)))


def _state(start: Start) -> str:
    if not start.running:
        return start.state
    return "ready" if start.ready_at else "loading"


def name_of(start: Start) -> str:
    """The name of the log; where that says nothing, with its folder before it."""
    stem = os.path.basename(start.path)
    for ending in _ENDINGS:
        stem = stem.removesuffix(ending) or stem
    folder = os.path.basename(os.path.dirname(start.path))
    name = f"{folder}/{stem}" if stem.lower() in _SAY_NOTHING and folder else stem
    return (name if start.alone else f"{name}, from line {start.line}")[:500]


def benchmark(result: Result) -> dict[str, Any]:
    told = {
        "key": result.key, "path": result.path, "fact": _without_none(result.fact), "launch": result.launch,
        "random_seed": result.server.get("random_seed"),
    }  # fmt: skip
    return dict(plain(_without_none(told)))


def report(found: Found, starts: Sequence[Start], settled: dict[str, dict[str, str]]) -> dict[str, Any]:
    """What was found and what was not understood; with ids where it was told."""
    keys = {start.key: start for start in found.starts}
    told = {
        "folders": found.folders,
        "files": found.files,
        "bytes": found.bytes,
        "launches": [_launch_line(start, settled) for start in starts],
        "benchmarks": [_benchmark_line(result, settled, keys) for result in found.results],
        "trainings": [
            _line(run.key, settled) | {"path": run.path, "name": run.fact["name"], "points": len(run.fact["points"])}
            for run in found.runs
        ],
        "findings": [
            _line(one["key"], settled)
            | {"title": one["fact"]["title"], "launches": [_id(key, settled) for key in one["launches"]]}
            for one in tie.failures(starts)
        ],
        "running": [{"path": start.path, "pid": start.running} for start in found.starts if start.running],
        "not_understood": [vars(one) for one in found.not_understood],
        "passed_over": found.passed_over,
        "notes": found.notes,
    }
    return dict(plain(told))


def _launch_line(start: Start, settled: dict[str, dict[str, str]]) -> dict[str, Any]:
    took = (start.ready_at - start.started_at).total_seconds() if start.ready_at and start.started_at else None
    return _line(start.key, settled) | _without_none(
        {
            "path": start.path, "line": start.line, "name": name_of(start), "engine": start.engine,
            "state": start.state,
            "started_at": start.started_at, "ready_after_s": took, "model": start.model, "failure": start.failure,
            "category": (start.cause or {}).get("category"),
            "command": (start.command or {}).get("command", "not recorded"),
        }
    )  # fmt: skip


def _benchmark_line(result: Result, settled: dict[str, dict[str, str]], keys: dict[str, Start]) -> dict[str, Any]:
    start = keys.get(result.launch) if result.launch else None
    log = start.path if start else None
    launch = settled[start.key]["id"] if start and start.key in settled else name_of(start) if start else None
    return _line(result.key, settled) | _without_none(
        {"path": result.path, "name": result.fact["name"], "launch": launch, "log": log}
    )


def _line(key: str, settled: dict[str, dict[str, str]]) -> dict[str, Any]:
    told = settled.get(key)
    return {"id": told["id"], "outcome": told["outcome"]} if told else {}


def _id(key: str, settled: dict[str, dict[str, str]]) -> str:
    return settled[key]["id"] if key in settled else key[:12]


def plain(value: Any) -> Any:
    """As JSON carries it: instants as text, what is no number left out."""
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float | Decimal) and not math.isfinite(value):
        return None
    return value


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _parts(told: Sequence[dict[str, Any]], most: int) -> Iterator[list[dict[str, Any]]]:
    for at in range(0, len(told), most):
        yield list(told[at : at + most])
