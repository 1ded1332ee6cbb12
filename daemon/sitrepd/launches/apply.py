"""What a log has told becomes rows: phases, sizes, settings, warnings, throughput."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlmodel import Session, select

from sitrepd import redact
from sitrepd.launches import samples
from sitrepd.launches.engines import base as e
from sitrepd.launches.models import Launch, LaunchPhase, LaunchSize
from sitrepd.storage import events as log
from sitrepd.storage import ids

_MOST_WARNINGS = 50


def apply_events(db: Session, launch: Launch, events: Sequence[e.LogEvent]) -> None:
    """Bring the rows of a launch up to date with the events of its log, in order."""
    phases = {row.name: row for row in db.exec(select(LaunchPhase).where(LaunchPhase.launch_id == launch.id)).all()}
    changed: dict[str, Any] = {}
    for event in events:
        match event:
            case e.PhaseBegan():
                _began(db, launch, phases, event)
                changed["phase"] = event.phase
            case e.PhaseProgress():
                _progressed(phases, event)
            case e.PhaseEnded():
                _ended(phases, event)
                changed["ended"] = event.phase
            case e.Sized():
                _sized(db, launch, event)
            case e.Listening() if event.port is not None:
                launch.port = event.port
            case e.Settings():
                launch.settings = redact.redact_json(event.values)
                changed["settings"] = True
            case e.Throughput():
                launch.throughput = figures(event)
            case e.Timings():
                launch.timings = event.seconds
            case e.Compiled() if event.after_ready and event.seconds:
                if _warn(launch, compiled_while_serving(event)):
                    changed["warning"] = True
            case e.Warned() | e.PortTaken():
                if _warn(launch, event.text):
                    changed["warning"] = True
            case e.Restarted():
                _forget(db, launch, phases)
                changed["restarted"] = True
            case e.Stopping():
                launch.process = {**(launch.process or {}), "said_stopping": True}
            case e.Failed() if event.first and launch.failure is None and not _is_to_end(launch):
                launch.failure = redact.redact_text(event.cause)
                changed["failure"] = launch.failure
            case _:
                pass
    db.add(launch)
    samples.record(db, launch.id or 0, [event for event in events if isinstance(event, e.Throughput)])
    if changed:
        log.record(db, "launch.changed", ids.public_id("L", launch.id or 0), launch.session_id, **changed)


def _is_to_end(launch: Launch) -> bool:
    """What a server says while it is being stopped is no failure."""
    return "stop_asked_at" in (launch.process or {})


def _forget(db: Session, launch: Launch, phases: dict[str, LaunchPhase]) -> None:
    """What was told before belongs to an earlier server that wrote to the same log."""
    for row in phases.values():
        if row.name != "starting":
            db.delete(row)
    for size in db.exec(select(LaunchSize).where(LaunchSize.launch_id == launch.id)).all():
        db.delete(size)
    launch.process = {name: value for name, value in (launch.process or {}).items() if name != "said_stopping"}
    kept = phases.get("starting")
    phases.clear()
    if kept is not None:
        phases["starting"] = kept
    launch.failure, launch.warnings, launch.throughput = None, [], None


def _began(db: Session, launch: Launch, phases: dict[str, LaunchPhase], event: e.PhaseBegan) -> None:
    row = phases.get(event.phase)
    if row is None:
        row = phases[event.phase] = LaunchPhase(launch_id=launch.id or 0, name=event.phase, started_at=event.at)
    row.ended_at = None
    db.add(row)


def _progressed(phases: dict[str, LaunchPhase], event: e.PhaseProgress) -> None:
    row = phases.get(event.phase)
    if row is not None:
        row.done, row.total, row.unit = event.done, event.total, event.unit
        row.progress = round(event.done / event.total, 4) if event.total else None


def _ended(phases: dict[str, LaunchPhase], event: e.PhaseEnded) -> None:
    row = phases.get(event.phase)
    if row is not None:
        # Log times are whole seconds, and the first phase began with the process, which is known to the millisecond.
        row.ended_at = max(event.at, row.started_at or event.at)
        row.elapsed_s = event.elapsed_s
        row.progress = 1.0 if row.total else row.progress
        row.done = row.total


def _sized(db: Session, launch: Launch, event: e.Sized) -> None:
    key = (LaunchSize.launch_id == launch.id, LaunchSize.name == event.name)
    query = select(LaunchSize).where(*key, LaunchSize.role == event.role, LaunchSize.rank == event.rank)
    row = db.exec(query).first()
    row = row or LaunchSize(
        launch_id=launch.id or 0, name=event.name, role=event.role, rank=event.rank, value=0, unit=""
    )
    row.value, row.unit = event.value, event.unit
    db.add(row)


def figures(event: e.Throughput) -> dict[str, Any]:
    """What a batch line told, as a launch keeps it."""
    told = e.event_to_json(event)
    return {name: value for name, value in told.items() if value not in (None, {}, "") and name != "kind"}


def compiled_while_serving(event: e.Compiled) -> str:
    """What a kernel that was compiled after the start means for what was measured."""
    return f"{event.what} was compiled for {event.seconds:g} s while serving: what was measured then waited."


def _warn(launch: Launch, text: str) -> bool:
    told, known = redact.redact_text(text), launch.warnings or []
    if told in known or len(known) >= _MOST_WARNINGS:
        return False
    launch.warnings = [*known, told]
    return True
