"""The runs of a session, grouped and kept from one checkpoint to the next: only what has changed is read again."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import cache
from threading import Lock
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from sqlalchemy import Text, cast, sql

from sitrepd import reporting as r
from sitrepd.benchmarks.groups import Groups, Run
from sitrepd.benchmarks.metrics import Metric
from sitrepd.benchmarks.models import Benchmark, BenchmarkMetric
from sitrepd.sections import Report
from sitrepd.storage import events, ids

_SESSIONS = 2
_MOST = 500
_EVENTS = 20_000
_SETTINGS = ("config", "workload")
_METRIC = ("text", "unit", "better")

_kept: WeakKeyDictionary[Any, OrderedDict[int, _Kept]] = WeakKeyDictionary()
_lock = Lock()


class Told(NamedTuple):
    """A benchmark's row without its times."""

    id: int
    name: str | None
    launch_id: int | None
    tool: str | None
    baseline: bool
    comparable: bool
    config: Mapping[str, Any]
    workload: Mapping[str, Any]
    note: str | None
    artifact: str | None


class Board:
    """All runs of a session by one metric: their rows by public id, oldest first, and the groups that they make."""

    def __init__(self, metric: str) -> None:
        self.rows: dict[str, Told] = {}
        self.groups = Groups(metric)
        self.said: Any = None
        """What the report made of these runs, until another one comes."""

    def add(self, row: Told, run: Run) -> None:
        self.said = None
        self.rows[run.id] = row
        self.groups.add(run)

    @property
    def last(self) -> int:
        """The number of the run that was told last; 0 where there is none."""
        return next(reversed(self.rows.values())).id if self.rows else 0


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
    made = Board(metric)
    for row, run in _read(report, metric):
        made.add(row, run)
    return made


def _refreshed(report: Report, metric: str, known: _Kept, now: int) -> Board | None:
    """The known board with what was told and changed since; None where all has to be read."""
    made = known.board
    if not 0 <= now - known.event <= _EVENTS or made.groups.metric != metric:
        return None
    parsed = map(ids.parse_id, events.subjects_since(report.db, known.event, "benchmark."))
    numbers = [one[1] for one in parsed if one is not None]
    if len(numbers) > _MOST:
        return None
    if numbers:
        made = _changed(made, list(_read(report, metric, numbers)))
    return made if r.count(report, "benchmark") == len(made.rows) else None


def _changed(known: Board, told: Sequence[tuple[Told, Run]]) -> Board:
    """What comes after all that is known is put to it; what is among it makes a board anew."""
    if all(row.id > known.last for row, _ in told):
        made = known
    else:
        every = {row.id: (row, known.groups.by_id[public_id]) for public_id, row in known.rows.items()}
        every |= {row.id: (row, run) for row, run in told}
        made, told = Board(known.groups.metric), [every[number] for number in sorted(every)]
    for row, run in told:
        made.add(row, run)
    return made


def _read(report: Report, metric: str, numbers: Sequence[int] | None = None) -> Iterator[tuple[Told, Run]]:
    """The session's runs, or those with the numbers, oldest first; settings that read the same are one object."""
    run, value = Benchmark.__table__.c, BenchmarkMetric.__table__.c  # type: ignore[attr-defined]
    told_columns = (cast(run[name], Text) if name in _SETTINGS else run[name] for name in Told._fields)
    columns = (*told_columns, *(value[name] for name in _METRIC))
    both = sql.join(run.id.table, value.id.table, (value.benchmark_id == run.id) & (value.name == metric), isouter=True)
    query = sql.select(*columns).select_from(both).where(run.session_id == report.session_id).order_by(run.id)
    if numbers is not None:
        query = query.where(run.id.in_(numbers))
    parse = cache(_parsed)
    for row in report.db.connection().execute(query):
        number, name, launch, tool, baseline, comparable, config, workload, note, artifact, text, unit, better = row
        told = Told(
            number, name, launch, tool, bool(baseline), bool(comparable), parse(config), parse(workload), note, artifact
        )
        metrics = {} if text is None else {metric: Metric(metric, Decimal(text), unit, better)}
        yield told, Run(
            f"B{number}", metrics, name, told.baseline, told.comparable, config=told.config, workload=told.workload,
            launch=r.public("L", launch), note=note,
        )  # fmt: skip


def _parsed(settings: str | None) -> Mapping[str, Any]:
    return json.loads(settings or "null") or {}
