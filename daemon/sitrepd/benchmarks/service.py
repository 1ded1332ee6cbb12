"""What can be done with benchmarks: take in result files, tie them to their launches, compare."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import simplejson
from sqlmodel import Session, col, select

from sitrepd import facts
from sitrepd.benchmarks.compare import BEST_METRIC, Comparison, compare
from sitrepd.benchmarks.groups import Run
from sitrepd.benchmarks.models import Benchmark, BenchmarkCreate
from sitrepd.benchmarks.parsers import ParsedBenchmark, ServerFacts
from sitrepd.benchmarks.runs import metric_names, stored_runs, stored_samples
from sitrepd.errors import InvalidFact
from sitrepd.facts import Scope
from sitrepd.shapes import Measure
from sitrepd.storage import ids


@dataclass(frozen=True)
class Told:
    """What the caller says of an imported file; it comes before what the file says."""

    filename: str
    launch: str | None = None
    name: str | None = None
    baseline: bool = False
    marks: tuple[str, ...] = ()
    original: Mapping[str, Any] | None = None
    """The file that was kept of it, see `originals`."""


def take_in(
    db: Session, scope: Scope, parsed: Sequence[ParsedBenchmark], told: Told
) -> tuple[list[Benchmark], list[Benchmark], list[str]]:
    """Store the runs of a file; (new, known before, notes about their launches). A run is stored once."""
    new, known, notes = [], [], []
    for run in parsed:
        same = stored(db, scope, run)
        if same is not None:
            known.append(same)
            continue
        launch, note = (told.launch, None) if told.launch else find_launch(db, scope, run.server)
        row = store_one(db, scope, run, replace(told, launch=launch))
        new.append(row)
        if note:
            notes.append(f"{ids.public_id('B', row.id or 0)}: {note}")
    return new, known, notes


def store_one(db: Session, scope: Scope, run: ParsedBenchmark, told: Told) -> Benchmark:
    """The row of a run that is not stored yet."""
    row: Benchmark = facts.tell(db, scope.registry.by_word["benchmark"], _create(run, told), scope)
    row.digest = digest_of(run)
    row.original = dict(told.original) if told.original else None
    db.add(row)
    return row


def digest_of(run: ParsedBenchmark) -> str:
    """SHA-256 of what was measured, however the file was laid out: tools append to one file run after run."""
    digest = run.written or _digest(
        [run.tool, run.config, run.workload, [[one.name, str(one.value)] for one in run.metrics]]
    )
    return digest if run.twin is None else _digest([digest, run.twin])


def _digest(told: Sequence[Any]) -> str:
    text = simplejson.dumps(told, sort_keys=True, use_decimal=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def stored(db: Session, scope: Scope, run: ParsedBenchmark) -> Benchmark | None:
    """The benchmark of the session that was stored of the same run."""
    same = col(Benchmark.digest) == digest_of(run), col(Benchmark.session_id) == scope.session_id
    return db.exec(select(Benchmark).where(*same)).first()


def _create(run: ParsedBenchmark, told: Told) -> BenchmarkCreate:
    return BenchmarkCreate(
        name=told.name or run.name,
        launch=told.launch,
        tool=run.tool,
        baseline=told.baseline,
        config=run.config,
        workload=run.workload,
        metrics={one.name: Measure(value=one.value, unit=one.unit, better=one.better) for one in run.metrics},
        note=" ".join(run.notes) or None,
        marks=list(told.marks),
        artifact=told.filename or None,
    )


def find_launch(db: Session, scope: Scope, server: ServerFacts) -> tuple[str | None, str | None]:
    """The launch that a result was measured on, if one alone fits: by the seed that it drew, else by port and model."""
    launch = scope.registry.by_word["launch"]
    rows: list[Any] = [row for row in facts.all_rows(db, launch, scope.session_id) if row.settings or row.port]
    if server.random_seed is not None:
        seeded = [row for row in rows if (row.settings or {}).get("random_seed") == server.random_seed]
        if len(seeded) == 1:
            return launch.public_id(seeded[0].id), None
    fitting = [row for row in rows if _fits(row, server)]
    if len(fitting) == 1:
        return launch.public_id(fitting[0].id), None
    if server.port is None:
        return None, "its file does not tell which server it asked; say which launch that was with --launch."
    if not fitting:
        return None, "no recorded launch fits its server; say which with --launch."
    names = ", ".join(launch.public_id(row.id) for row in fitting)
    return None, f"{names} fit its server; say which with --launch."


def _fits(row: Any, server: ServerFacts) -> bool:
    seed = (row.settings or {}).get("random_seed")
    if server.random_seed is not None and seed is not None and seed != server.random_seed:
        return False
    settings = row.settings or {}
    names = (None, settings.get("model_path") or row.model, settings.get("served_model_name"))
    return server.port is not None and row.port == server.port and server.model_path in names


@dataclass(frozen=True)
class Which:
    """Which runs are compared, and with which: all of the session and its own baseline where nothing is said."""

    metric: str | None = None
    runs: Sequence[str] = ()
    baseline: str | None = None
    latency: str | None = None


def comparison(db: Session, scope: Scope, which: Which) -> tuple[Comparison, dict[str, list[Decimal]]]:
    """The runs of the scope's session by one metric (by its own if none is asked for), and the samples within runs."""
    from sitrepd.benchmarks.decide import MEASURED

    number = scope.session_id
    session: Any = db.get(scope.registry.by_word["session"].table, number)
    wanted = which.metric or session.best_metric or BEST_METRIC
    for asked in (which.metric, which.latency):
        known = metric_names(db, number) if asked else []
        if known and asked not in known:
            raise InvalidFact(f"No run has the metric {asked!r}; there are {', '.join(known[:12])}.")
    names = {wanted, *MEASURED, *([which.latency] if which.latency else [])}
    runs = _chosen(stored_runs(db, number, names), which)
    return compare(runs, wanted), stored_samples(db, number, wanted)


def _chosen(runs: list[Run], which: Which) -> list[Run]:
    """The runs that are asked for, and the baseline of theirs."""
    by_id = {run.id: run for run in runs}
    asked = [one.upper() for one in which.runs]
    baseline = which.baseline.upper() if which.baseline else None
    unknown = [one for one in (*asked, *([baseline] if baseline else ())) if one not in by_id]
    if unknown:
        raise InvalidFact(f"The session has no run {', '.join(unknown)}.")
    if asked:
        kept = {*asked, *([baseline] if baseline else [run.id for run in runs if run.baseline])}
        runs = [run for run in runs if run.id in kept]
    return [run._replace(baseline=run.id == baseline) for run in runs] if baseline else runs
