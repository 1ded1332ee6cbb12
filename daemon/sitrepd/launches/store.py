"""What a look at a launch has found, stored in one transaction."""

from __future__ import annotations

import shlex
import signal
from datetime import datetime
from typing import Any

from sqlalchemy import update
from sqlmodel import Session, col, select

from sitrepd.clock import utc_now
from sitrepd.launches import autopsy, samples
from sitrepd.launches.apply import apply_events, figures
from sitrepd.launches.command import CommandError, parse_command
from sitrepd.launches.ends import LOOKED_INTO
from sitrepd.launches.engines import base as e
from sitrepd.launches.launchers.base import Exit
from sitrepd.launches.models import Launch, LaunchPhase
from sitrepd.launches.ports import who_listens
from sitrepd.launches.watch import Outcome, Watch
from sitrepd.storage import events, ids


def settle(db: Session, number: int, watch: Watch, outcome: Outcome, *, stopped: bool) -> None:
    """Events, log position and state belong together: a daemon that dies in between reads the same lines again."""
    if outcome.only_figures:
        _keep_figures(db, number, outcome)
        return
    launch = db.get(Launch, number)
    if launch is None:
        return
    apply_events(db, launch, outcome.events)
    if outcome.position is not None:
        launch.log_position, launch.parser_state = outcome.position, outcome.parser_state
    if watch.cold and "kernels" not in (launch.process or {}):
        launch.process = {**(launch.process or {}), "kernels": "cold"}
    if outcome.suspect_changed:
        launch.suspect = watch.suspect
        events.record(db, "launch.changed", ids.public_id("L", number), launch.session_id, suspect=watch.suspect)
    before = launch.state
    launch.state = outcome.state
    if outcome.became_ready:
        launch.ready_at = watch.readiness.since or utc_now()
        _end_phases(db, launch, launch.ready_at)
    if watch.port_taken and launch.failure is None:
        launch.failure = _taken(watch)
    if outcome.exit is not None:
        _end(db, launch, outcome.exit, stopped)
    if launch.state != before:
        data: dict[str, Any] = {"state": launch.state, "before": before}
        if autopsy.is_due(launch):
            data[LOOKED_INTO] = False
        events.record(db, "launch.changed", ids.public_id("L", number), launch.session_id, **data)
    db.add(launch)


def _keep_figures(db: Session, number: int, outcome: Outcome) -> None:
    """Without reading the row, as this happens all the time."""
    told = [event for event in outcome.events if isinstance(event, e.Throughput)]
    columns = {"log_position": outcome.position, "parser_state": outcome.parser_state, "throughput": figures(told[-1])}
    db.execute(update(Launch).where(col(Launch.id) == number).values(**columns))
    samples.record(db, number, told)


def _end(db: Session, launch: Launch, ended: Exit, stopped: bool) -> None:
    launch.ended_at = ended.ended_at or utc_now()
    launch.exit_code, launch.exit_signal = ended.exit_code, ended.signal
    stopped = stopped or "stop_asked_at" in (launch.process or {})
    launch.state = end_state(launch, ended, stopped=stopped)
    if launch.state == "lost":
        launch.state = _by_its_log(launch)
    if launch.state in ("failed", "lost") and launch.failure is None:
        launch.failure = how_it_ended(ended)
    if ended.leftovers:
        left = ", ".join(f"{one.pid} ({one.name})" for one in ended.leftovers)
        launch.warnings = [*launch.warnings, f"Processes were left when it ended: {left}."]
    _end_phases(db, launch, launch.ended_at)
    whole = samples.summary(db, launch.id or 0)
    if whole is not None:
        life = whole.model_dump(mode="json", exclude_none=True)
        launch.throughput = {**(launch.throughput or {}), "life": life}


def end_state(launch: Launch, ended: Exit, *, stopped: bool) -> str:
    """exited when it was to end, failed when it was not, lost when nobody saw how it ended."""
    if stopped or ended.exit_code == 0:
        return "exited"
    if not ended.known:
        return "lost"
    # A shell or uv around it tells signals by exit codes; SGLang says that it was asked, and then kills itself.
    asked = ended.signal in (2, 15) or ended.exit_code in (130, 143) or _said_stopping(launch)
    failed_before = launch.ready_at is None and launch.failure is not None
    return "exited" if asked and not failed_before else "failed"


def _by_its_log(launch: Launch) -> str:
    """Of a server that somebody else started only its log can tell: that it was asked to end, or what went wrong."""
    if _said_stopping(launch):
        return "exited"
    return "failed" if launch.failure else "lost"


def _said_stopping(launch: Launch) -> bool:
    return bool((launch.process or {}).get("said_stopping"))


def how_it_ended(ended: Exit) -> str:
    if not ended.known:
        return ended.reason or "Nobody saw how it ended."
    if ended.signal is not None:
        return f"The process was ended by {_signal_name(ended.signal)}; its log gives no cause."
    return f"The process ended with exit code {ended.exit_code}; its log gives no cause."


def _signal_name(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


def _end_phases(db: Session, launch: Launch, at: datetime) -> None:
    for row in db.exec(select(LaunchPhase).where(LaunchPhase.launch_id == launch.id)).all():
        if row.ended_at is None and row.started_at is not None:
            row.ended_at = max(at, row.started_at)
            db.add(row)


def _taken(watch: Watch) -> str:
    port = watch.facts.port
    holders = [one for one in who_listens(port) if one.pid] if port else []
    what = f"was taken by pid {holders[0].pid}" if holders else "could not be had"
    which = f"Port {port}" if port else "The port that it wanted"
    return f"{which} {what}: this server serves nobody, whatever its log says. Stop it and choose another port."


def words_of(row: Launch) -> tuple[list[str], dict[str, str]]:
    """argv and environment of a stored launch, as far as they can be known from what was stored."""
    env = dict(row.env or {})
    inside = (row.process or {}).get("server")
    if inside:
        return list(inside["argv"]), env | dict(inside["env"])
    if row.argv:
        return list(row.argv), env
    if not row.command:
        return [], env
    try:
        command = parse_command(row.command, env, row.cwd or "/")
    except CommandError:
        return _split(row.command), env
    known: dict[str, Any] = {name: value for name, value in command.environment.items() if value is not None}
    return list(command.argv), env | known


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
