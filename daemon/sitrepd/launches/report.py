"""What launches say in a checkpoint: what is going on now, and the history of starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from sqlmodel import col

from sitrepd import reporting as r
from sitrepd.launches import samples
from sitrepd.launches.discovery.told import beside
from sitrepd.launches.models import ALIVE, Launch, LaunchPhase, LaunchSize
from sitrepd.sections import Report, Section, of_now

_COLUMNS = (
    "id", "name", "engine", "command", "argv", "env", "cwd", "host_id", "log_path", "port", "model", "model_id",
    "draft_model", "draft_model_id", "state", "started_at", "ready_at", "ended_at", "exit_code", "exit_signal",
    "failure", "suspect", "watched", "warnings", "at", "provenance", "imported_from", "from_launch_id", "process",
    "throughput",
)  # fmt: skip
_HISTORY = 50
_FAILURES = 3
_LATELY = timedelta(minutes=10)
_LOOK_BACK = 10
_LIST = "sitrep launch list"


def report(report: Report) -> list[Section]:
    """Sections `now` and `launches`."""
    launch = r.table_of(report, "launch")
    found = r.rows(report, "launch", _COLUMNS, limit=_HISTORY)
    alive = r.rows(report, "launch", _COLUMNS, col(launch.state).in_(ALIVE), col(launch.ended_at).is_(None))
    known = {row.id: row for row in (*alive, *found)}
    told = _Told(report, list(known.values()))
    current = [row for row in known.values() if is_current(row)]
    items = [item for row in current for item in _now_items(told, row)]
    failures = [told.failure(row) for row in _failed(found)]
    if known and not current:
        items = [{"kind": "none", "ids": [], "what": "no launch", "order": 0}]
    now = [*items, *failures, *_elsewhere(report), *beside(report.live.get("servers"))]
    history = [told.past(row) for row in sorted(known.values(), key=lambda row: -row.id) if row not in current]
    earlier = r.count(report, "launch") - len(known)
    return [
        of_now(now, watched=any(row.watched for row in current)),
        Section(
            name="launches", title="Launches before", order=160, priority=70, items=history,
            data=r.present(earlier=earlier or None), more=_LIST,
        ),
    ]  # fmt: skip


def is_current(row: Any) -> bool:
    """Whether a launch is, or was told to be, alive."""
    return row.state in ALIVE and row.ended_at is None


def _failed(newest_first: Sequence[Any]) -> list[Any]:
    """The latest starts that failed, as long as no later one has become ready."""
    failed = []
    for row in newest_first[:_LOOK_BACK]:
        if row.ready_at is not None or row.state == "ready":
            break
        if row.state in ("failed", "lost"):
            failed.append(row)
    return failed[:_FAILURES]


def _now_items(told: _Told, row: Any) -> Iterable[dict[str, Any]]:
    yield told.current(row)
    command = told.command(row)
    if command["command"] is not None:
        yield command


def _elsewhere(report: Report) -> list[dict[str, Any]]:
    """Living launches of other sessions take GPUs too; they are no facts of this one."""
    launch = Launch
    others = r.rows(
        report, "launch", ("id", "name", "state", "session_id"),
        col(launch.watched).is_(True), col(launch.state).in_(ALIVE), everywhere=True,
    )  # fmt: skip
    return [
        {"kind": "elsewhere", "ids": [f"L{row.id}"], "volatile": True, "pinned": False, "priority": 28, "order": 60}
        | r.present(id=f"L{row.id}", name=row.name, state=row.state, session=r.public("S", row.session_id))
        for row in others
        if row.session_id != report.session_id
    ]


class _Told:
    """Launch rows as items, with the names of what they refer to read once for all of them."""

    def __init__(self, report: Report, found: Sequence[Any]) -> None:
        self._report = report
        self._live: Mapping[int, Any] = report.live.get("launches") or {}
        self._hosts = r.names_of(report, "host", (row.host_id for row in found))
        models = [number for row in found for number in (row.model_id, row.draft_model_id)]
        self._models = r.names_of(report, "model", models)
        numbers = [row.id for row in found]
        names = ("name", "started_at", "ended_at", "elapsed_s", "progress", "done", "total", "unit")
        self._phases = r.children(report, LaunchPhase, "launch_id", numbers, names)
        self._sizes = r.children(report, LaunchSize, "launch_id", numbers, ("name", "role", "rank", "value", "unit"))

    def _shared(self, row: Any) -> dict[str, Any]:
        return {"id": f"L{row.id}", "ids": [f"L{row.id}"], "state": row.state, "watched": row.watched} | r.present(
            name=row.name,
            engine=row.engine,
            host=self._hosts.get(row.host_id),
            model=self._models.get(row.model_id) or row.model,
            draft_model=self._models.get(row.draft_model_id) or row.draft_model,
            port=row.port,
            log_path=row.log_path,
            repeats=r.public("L", row.from_launch_id),
            told_by=row.provenance,
            imported_from=row.imported_from,
            at=r.when(row.at),
            started_at=r.when(row.started_at),
            ready_at=r.when(row.ready_at),
        )

    def current(self, row: Any) -> dict[str, Any]:
        """A launch that lives, or was told to."""
        phases = self._phases.get(row.id, [])
        item = {"kind": "launch", "order": 0 if row.watched else 10} | self._shared(row)
        item |= r.present(suspect=row.suspect, warnings=row.warnings)
        if row.watched:
            live = _progress(self._live.get(row.id), phases) | r.present(figures=self._lately(row))
            item |= r.present(live=live, phases=_phase_times(phases))
        elif phases:
            item["phases"] = _phase_times(phases)
        return item

    def _lately(self, row: Any) -> dict[str, Any] | None:
        """Means over the last minutes in which it told figures."""
        if row.state != "ready":
            return None
        told = samples.summary(self._report.db, row.id, self._report.now - _LATELY)
        return _figures(told.model_dump()) if told else None

    def command(self, row: Any) -> dict[str, Any]:
        line = r.command_line(row.command, row.argv, row.env)
        item = {"kind": "command", "ids": [f"L{row.id}"], "what": f"command of L{row.id}", "launch": f"L{row.id}"}
        item |= r.present(around=r.surroundings(row.command, row.env, row.process))
        return item | {"command": line, "priority": 7, "order": 1 if row.watched else 11, "cwd": row.cwd}

    def failure(self, row: Any) -> dict[str, Any]:
        return {"kind": "failure", "order": 20, "priority": 8} | self._shared(row) | _end(row)

    def past(self, row: Any) -> dict[str, Any]:
        """A start that is over, with its command."""
        item = {"kind": "launch"} | self._shared(row) | _end(row)
        item["command"] = r.command_line(row.command, row.argv, row.env)
        sizes = [
            _size(size)
            for size in self._sizes.get(row.id, [])
            if size.rank in ("", "0", "TP0") and size.name != "free_bytes"
        ]
        phases = _phase_times(self._phases.get(row.id, []))
        figures = _figures((row.throughput or {}).get("life") or {}) or None
        return item | r.present(cwd=row.cwd, warnings=row.warnings, phases=phases, sizes=sizes, figures=figures)


def _end(row: Any) -> dict[str, Any]:
    """How it ended; SGLang kills itself once it has drained, so of one that was stopped the signal tells nothing."""
    stopped = row.state == "exited" and "stop_asked_at" in (row.process or {})
    return r.present(
        ended_at=r.when(row.ended_at), exit_code=row.exit_code, exit_signal=row.exit_signal, failure=row.failure,
        stopped=stopped or None,
    )  # fmt: skip


def _figures(told: Mapping[str, Any]) -> dict[str, Any]:
    tokens, accepted = told.get("gen_tok_s"), told.get("accept_len")
    return r.present(
        gen_tok_s=None if tokens is None else round(tokens, 1),
        accept_len=None if accepted is None else round(accepted, 2),
        seconds=told.get("seconds"),
    )


def _size(row: Any) -> dict[str, Any]:
    return r.present(name=row.name, role=row.role or None, value=row.value, unit=row.unit)


def _phase_times(phases: Sequence[Any]) -> list[dict[str, Any]]:
    """Which phases there were: when they began, and how long those took that are over."""
    return [
        r.present(name=row.name, started_at=r.when(row.started_at), ended_at=r.when(row.ended_at), took_s=_took_s(row))
        for row in phases
    ]


def _took_s(row: Any) -> float | None:
    if row.elapsed_s is not None:
        return round(float(row.elapsed_s), 1)
    if row.started_at is None or row.ended_at is None:
        return None
    return round(float((row.ended_at - row.started_at).total_seconds()), 1)


def _progress(live: Any, phases: Sequence[Any]) -> dict[str, Any]:
    """How far it is: from what is known at this moment, else from the rows."""
    opened = [row for row in phases if row.started_at is not None and row.ended_at is None]
    row = opened[-1] if opened else None
    source = live if live is not None else row
    told = r.present(
        phase=getattr(live, "title", None) or getattr(live, "phase", None) or (row.name if row else None),
        progress=getattr(source, "progress", None),
        done=getattr(source, "done", None),
        total=getattr(source, "total", None),
        unit=getattr(source, "unit", None),
    )
    names = ("remaining_s", "remaining_low_s", "remaining_high_s", "remaining_of", "elapsed_s", "pid", "log_problem")
    return told | r.present(**{name: getattr(live, name, None) for name in names})
