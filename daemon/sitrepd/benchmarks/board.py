"""The runs of a session, grouped and kept from one checkpoint to the next: only what has changed is read again."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import cache
from threading import Lock
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from sqlalchemy import Text, cast, sql

from sitrepd import reporting as r
from sitrepd.benchmarks.groups import Groups, Run
from sitrepd.benchmarks.marks import failures, marks_of
from sitrepd.benchmarks.metrics import Metric
from sitrepd.benchmarks.models import Benchmark, BenchmarkMetric
from sitrepd.sections import Report
from sitrepd.storage import events, ids

_SESSIONS = 2
_MOST = 500
_EVENTS = 20_000
_COLUMNS = (
    "id", "name", "launch_id", "tool", "baseline", "comparable", "config", "workload", "note", "marks", "artifact",
    "at", "observed_at", "imported_from",
)  # fmt: skip
_SETTINGS = ("config", "workload", "marks")
_METRIC = ("text", "unit", "better")

_kept: WeakKeyDictionary[Any, OrderedDict[int, _Kept]] = WeakKeyDictionary()
_lock = Lock()


class Board:
    """All runs of a session by one metric, oldest first, in groups.

    `said` is what the report last made of them; `told_since` says whether a run has come since.
    """

    def __init__(self, metric: str) -> None:
        self.groups = Groups(metric)
        self.said: Any = None
        self.told_since = False

    def add(self, run: Run) -> None:
        self.groups.add(run)
        self.told_since = True


class _Kept(NamedTuple):
    """A board, and the last event that it knows of."""

    board: Board
    event: int


@contextmanager
def board(report: Report, metric: str) -> Iterator[Board]:
    """The board as the caller's transaction sees it; as long as it is looked at, nobody else changes it."""
    engine = report.db.get_bind()
    now = events.last_event_id(report.db)
    with _lock:
        boards = _kept.setdefault(engine, OrderedDict())
        known = boards.pop(report.session_id, None)
        found = (_refreshed(report, metric, known, now) if known is not None else None) or _whole(report, metric)
        yield found
        boards[report.session_id] = known if known is not None and known.event > now else _Kept(found, now)
        while len(boards) > _SESSIONS:
            boards.popitem(last=False)


def forget() -> None:
    """Read everything anew the next time."""
    with _lock:
        _kept.clear()


def _whole(report: Report, metric: str) -> Board:
    return _made_of(metric, _read(report, metric))


def _made_of(metric: str, runs: Iterable[Run]) -> Board:
    made = Board(metric)
    for run in runs:
        made.add(run)
    return made


def _refreshed(report: Report, metric: str, known: _Kept, now: int) -> Board | None:
    """The known board with what was told and changed since; None where all has to be read."""
    made = known.board
    if not 0 <= now - known.event <= _EVENTS or made.groups.metric != metric:
        return None
    if events.last_forgotten(report.db) > known.event:
        return None
    parsed = map(ids.parse_id, events.subjects_since(report.db, known.event, "benchmark."))
    numbers = [one[1] for one in parsed if one is not None]
    if len(numbers) > _MOST:
        return None
    if numbers:
        made = _changed(made, list(_read(report, metric, numbers)))
    return made if r.count(report, "benchmark") == len(made.groups.by_id) else None


def _changed(known: Board, told: Sequence[Run]) -> Board:
    """What comes after all that is known is put to it; what is among it makes a board anew."""
    by_id = known.groups.by_id
    last = _number(next(reversed(by_id.values()))) if by_id else 0
    if any(_number(run) <= last for run in told):
        every = by_id | {run.id: run for run in told}
        return _made_of(known.groups.metric, sorted(every.values(), key=_number))
    for run in told:
        known.add(run)
    return known


def _number(run: Run) -> int:
    return int(run.id[1:])


def _read(report: Report, metric: str, numbers: Sequence[int] | None = None) -> Iterator[Run]:
    """The session's runs, or those with the numbers, oldest first; settings that read the same are one object."""
    run, value = Benchmark.__table__.c, BenchmarkMetric.__table__.c  # type: ignore[attr-defined]
    told = (cast(run[name], Text).label(name) if name in _SETTINGS else run[name] for name in _COLUMNS)
    columns = (*told, *(value[name] for name in _METRIC))
    both = sql.join(run.id.table, value.id.table, (value.benchmark_id == run.id) & (value.name == metric), isouter=True)
    query = sql.select(*columns).select_from(both).where(run.session_id == report.session_id).order_by(run.id)
    if numbers is not None:
        query = query.where(r.among(run.id, numbers))
    failed = failures(report.db, report.session_id, numbers)
    parse = cache(_parsed)
    for row in report.db.connection().execute(query):
        yield Run(
            id=f"B{row.id}",
            metrics={} if row.text is None else {metric: Metric(metric, Decimal(row.text), row.unit, row.better)},
            name=row.name,
            baseline=bool(row.baseline),
            comparable=bool(row.comparable),
            config=parse(row.config),
            workload=parse(row.workload),
            launch=r.public("L", row.launch_id),
            note=row.note,
            marks=marks_of(parse(row.marks) or (), failed.get(row.id)),
            tool=row.tool,
            artifact=row.artifact,
            at=r.told_at(report, row),
        )


def _parsed(settings: str | None) -> Any:
    return json.loads(settings or "null") or {}
