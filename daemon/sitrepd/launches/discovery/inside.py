"""A launch whose command is a script is understood as the server that the script has started."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from sqlmodel import Session, select

from sitrepd import redact
from sitrepd.clock import iso, utc_now
from sitrepd.launches import start
from sitrepd.launches.discovery import adopt
from sitrepd.launches.discovery.details import Details, kept_env
from sitrepd.launches.discovery.find import Server
from sitrepd.launches.follow import position_at
from sitrepd.launches.launchers.base import Launched, LaunchLog, ProcessIdentity
from sitrepd.launches.models import Launch, LaunchPhase
from sitrepd.launches.watch import Watch
from sitrepd.storage import events, ids
from sitrepd.storage.store import Store


def is_script(watch: Watch) -> bool:
    """Whether nothing is known of what it runs, and its caller has not said how to see that it is ready."""
    return watch.readiness.is_untold and not (watch.replaced or watch.port_taken)


async def taken(
    store: Store, watch: Watch, server: Server, details: Details, *, alone: bool = False
) -> tuple[Launched, Launch, list[LaunchPhase]] | None:
    """What to follow instead of the script, whose watch counts no more; None where it has ended meanwhile.

    A server that is `alone` goes on without what has started it.
    """
    now = _on_its_own(watch, server, details) if alone else await asyncio.to_thread(_launched, watch, details)
    watch.replaced = True
    told = None
    try:
        told = await store.write_async(lambda db: _take(db, watch.number, server, details, now))
    finally:
        watch.replaced = told is not None
    return (now, *told) if told else None


def _launched(watch: Watch, details: Details) -> Launched:
    """With the log that the server writes, where the script has sent it elsewhere than to the launch's own."""
    own, found = watch.follower.path, details.log.readable
    if found is None or details.log.form or _size(own) > 0:
        return watch.launched
    return replace(watch.launched, logs=(LaunchLog(Path(found), "both", True),))


def _on_its_own(watch: Watch, server: Server, details: Details) -> Launched:
    """What started it has ended, and its log is the server's alone."""
    found = details.log.readable
    logs = (LaunchLog(Path(found), "both", True),) if found else ()
    return replace(watch.launched, identity=server.main.identity, supervisor=None, shell=False, logs=logs)


def _take(
    db: Session, number: int, server: Server, details: Details, now: Launched
) -> tuple[Launch, list[LaunchPhase]] | None:
    """The row as one of that server, its log to be read anew; what was read of it so far is forgotten."""
    row = db.get(Launch, number)
    if row is None or row.ended_at is not None:
        return None
    facts = details.facts
    row.engine, row.port = details.engine.name, facts.port or row.port
    row.ready_url = getattr(details.engine, "ready_url", None)
    row.model, row.draft_model = row.model or facts.model_path, row.draft_model or facts.draft_model_path
    row.process = (row.process or {}) | start.process_columns(now) | _inside(server, details)
    if now.supervisor is None:
        row.process |= {"handed_over": True, **adopt.seen(details)}
    if not now.logs:
        row.log_path = None
    elif str(now.logs[0].path) != row.log_path:
        row.log_path, row.process["log_begin"] = str(now.logs[0].path), details.log.begin
    begin = row.process.get("log_begin")
    position = position_at(str(row.log_path), begin) if begin and row.log_path else None
    row.log_position, row.parser_state, row.failure = position.to_json() if position else None, None, None
    phases = list(db.exec(select(LaunchPhase).where(LaunchPhase.launch_id == number)).all())
    for phase in phases:
        if phase.name != "starting":
            db.delete(phase)
    db.add(row)
    data = {"engine": row.engine, "main": server.main.pid}
    events.record(db, "launch.changed", ids.public_id("L", number), row.session_id, **data)
    return row, [phase for phase in phases if phase.name == "starting"]


def _inside(server: Server, details: Details) -> dict[str, Any]:
    words = redact.redact_argv(list(server.main.argv))
    told = {"argv": words, "env": redact.redact_env(kept_env(details.env)), "pid": server.main.pid}
    return {"server": told, "main": _main(server, details)}


def _main(server: Server, details: Details) -> dict[str, Any]:
    told = {"contained": details.container is not None, "readable": details.readable, "at": iso(utc_now())}
    return {**asdict(server.main.identity), **told}


def main_of(process: Mapping[str, Any]) -> ProcessIdentity | None:
    """The process of a launch that serves, where that is not the one which was started."""
    told = process.get("main") or {}
    names = [one.name for one in fields(ProcessIdentity)]
    return ProcessIdentity(**{name: told[name] for name in names}) if told else None


def note(db: Session, number: int, server: Server, details: Details) -> None:
    """Write down which process of a launch serves: by it, what the launch runs on is asked for (again)."""
    row = db.get(Launch, number)
    if row is None or row.ended_at is not None:
        return
    known = (row.process or {}).get("main") or {}
    told = _main(server, details)
    if {**known, "at": None} != {**told, "at": None}:
        row.process = {**(row.process or {}), "main": told}
        db.add(row)
        events.record(db, "launch.changed", ids.public_id("L", number), row.session_id, main=server.main.pid)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
