"""A found server becomes a launch: its row, and how it is followed from then on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlmodel import Session, col, select

from sitrepd import redact
from sitrepd.facts import Scope, create
from sitrepd.launches import start
from sitrepd.launches.discovery.details import Details, describe, kept_env
from sitrepd.launches.discovery.find import Server
from sitrepd.launches.engines.base import CommandFacts, Engine
from sitrepd.launches.engines.generic import GenericEngine
from sitrepd.launches.follow import LogFollower, LogPosition, position_at
from sitrepd.launches.launchers.base import Launched, LaunchLog
from sitrepd.launches.models import Launch, LaunchPhase, LaunchRecord
from sitrepd.launches.wrapped import unwrapping
from sitrepd.sessions import current
from sitrepd.storage import events, ids

if TYPE_CHECKING:
    from sitrepd.runtime import Runtime

PROVENANCE = "observed"


def launched(server: Server, details: Details) -> Launched:
    """As the launcher would tell of one that it has started."""
    log = details.log
    logs = (LaunchLog(Path(log.readable), "both", True),) if log.readable else ()
    return Launched(server.main.identity, details.started_at, logs)


def insert(db: Session, runtime: Runtime, server: Server, details: Details, position: LogPosition | None) -> Launch:
    """The row, in the session of its folder, else in the only open one, else in none."""
    scope = Scope(runtime.registry, PROVENANCE, session_of(db, details.cwd))
    facts = details.facts
    told = {"model": facts.model_path, "draft_model": facts.draft_model_path}
    record = LaunchRecord(at=details.started_at, **{name: value for name, value in told.items() if value})
    row: Launch = create(db, runtime.registry.by_word["launch"], record, scope)
    row.engine = details.engine.name if details.engine.name != GenericEngine.name else server.kind
    row.argv = redact.redact_argv(list(server.main.argv))
    row.env = redact.redact_env(kept_env(details.env)) or None
    row.cwd, row.log_path, row.port = details.cwd, details.log.path, facts.port
    row.ready_url = getattr(details.engine, "ready_url", None)
    row.host_id = runtime.host_id
    row.state, row.watched, row.started_at = "starting", True, details.started_at
    row.log_position = position.to_json() if position else None
    row.process, row.warnings = _process(server, details), []
    db.add(LaunchPhase(launch_id=row.id or 0, name="starting", started_at=details.started_at))
    db.add(row)
    return row


def _process(server: Server, details: Details) -> dict[str, Any]:
    return start.process_columns(launched(server, details)) | {"adopted": True} | seen(details)


def seen(details: Details) -> dict[str, Any]:
    """What is kept of a process that we have not started, as far as it may be seen."""
    log = details.log
    more = {
        "interpreter": details.interpreter,
        "user": details.user,
        "container": details.container.name if details.container else None,
        "timezone": details.facts.timezone or None,
        "log_form": log.form,
        "log_problem": log.problem,
        "log_begin": log.begin or None,
    }
    return {name: value for name, value in more.items() if value is not None}


def session_of(db: Session, cwd: str | None) -> int | None:
    """The session that the folder is tied to, else the only open one that was not imported: none is guessed."""
    tied = current.by_folder(db, cwd)
    if tied is not None:
        return tied
    found = current.open_sessions(db)
    return found[0].id if len(found) == 1 and found[0].imported_from is None else None


def homeless(db: Session) -> list[tuple[int, int]]:
    """Living adopted launches without a session, each with the one that it belongs to by now."""
    mine = (col(Launch.watched).is_(True), col(Launch.ended_at).is_(None), col(Launch.session_id).is_(None))
    rows = [row for row in db.exec(select(Launch).where(*mine)).all() if is_adopted(row)]
    found = [(row.id, session_of(db, row.cwd)) for row in rows]
    return [(number, session) for number, session in found if number is not None and session is not None]


def give_home(db: Session, number: int, session_id: int) -> None:
    """Put a launch into a session."""
    row = db.get(Launch, number)
    if row is None or row.session_id is not None:
        return
    row.session_id = session_id
    db.add(row)
    events.record(db, "launch.changed", ids.public_id("L", number), session_id, session=ids.public_id("S", session_id))


def begin(details: Details) -> LogPosition | None:
    """Where in its log the lines of this start begin."""
    return position_at(details.log.readable, details.log.begin) if details.log.readable and details.log.begin else None


def is_adopted(row: Launch) -> bool:
    return bool((row.process or {}).get("adopted"))


def described(row: Launch) -> tuple[Engine, CommandFacts]:
    """What the words of an adopted launch say, from its row."""
    process, kind = row.process or {}, row.engine or "sglang"
    ports = (row.port,) if row.port else ()
    engine, facts = describe(kind, row.argv or [], row.env or {}, ports)  # type: ignore[arg-type]
    zone = process.get("timezone")
    return engine, replace(facts, timezone=zone) if zone else facts


def follower(row: Launch, path: Path | None, position: LogPosition | None) -> LogFollower:
    """Reads the log of a launch; of an adopted one it may be wrapped by a container engine, or not there at all."""
    process = row.process or {}
    if path is None:
        return NoLog(process.get("log_problem") or "No log is known of it.")
    form = process.get("log_form")
    return WrappedLog(path, position, form) if form else LogFollower(path, position)


class WrappedLog(LogFollower):
    """The log that a container engine keeps, read as the server printed it."""

    def __init__(self, path: Path, position: LogPosition | None, form: str) -> None:
        super().__init__(path, position)
        self._unwrap = unwrapping(form)

    @property
    def partial(self) -> str:
        """A wrapped line is of no use before its end."""
        return ""

    def read(self, limit_bytes: int = 1 << 20) -> list[str]:
        return [text for line in super().read(limit_bytes) for text in self._unwrap(line)]


class NoLog(LogFollower):
    """Stands where there is nothing to read, and says why."""

    def __init__(self, problem: str) -> None:
        super().__init__("/dev/null")
        self.status, self.problem = "not_a_file", problem

    def read(self, limit_bytes: int = 0) -> list[str]:
        del limit_bytes
        self.at_end = True
        return []
