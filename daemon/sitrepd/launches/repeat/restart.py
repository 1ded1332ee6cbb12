"""A server stopped and started again: what is meant is stored first, so that the next daemon completes it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlmodel import Session, col, select

from sitrepd import redact
from sitrepd.clock import iso, utc_now
from sitrepd.errors import Conflict, InvalidFact, SitrepError
from sitrepd.launches import start
from sitrepd.launches.models import ALIVE, Launch
from sitrepd.launches.ports import port_free, port_taken
from sitrepd.launches.processes import boot_id, read_environ, read_stat
from sitrepd.launches.repeat import again, anew
from sitrepd.launches.repeat import around as a
from sitrepd.launches.service import Launches
from sitrepd.runtime import Runtime
from sitrepd.storage import events, ids

log = logging.getLogger(__name__)
_KEY = "restart"
_FREE_WITHIN_S = 30.0
_STOP_WITHIN_S = 150.0
_LOOK_S = 0.05
_STILL_MEANT = timedelta(hours=1)


@dataclass(frozen=True)
class Wanted:
    """What is kept of a restart until it is done; `number` is that of the new launch, `asked` has no secrets."""

    number: int
    asked: Mapping[str, Any]
    session_id: int | None
    teller: str
    at: str


async def restart(
    runtime: Runtime, row: Launch, asked: again.RestartIn, session_id: int | None, teller: str
) -> anew.Started:
    """Refuses what cannot be started before anything is stopped."""
    public = ids.public_id("L", row.id or 0)
    busy: set[int] = runtime.live.setdefault("restarting", set())
    if row.id in busy:
        raise Conflict(f"{public} is being restarted already; `sitrep launches` shows it.")
    busy.add(row.id or 0)
    try:
        plan = await asyncio.to_thread(again.again, row, asked)
        await _check(row, plan)
        wanted = await runtime.store.write_async(lambda db: _remember(db, row.id or 0, asked, session_id, teller))
        try:
            started = await _carry_out(runtime, row, plan, asked, wanted)
        except Exception:
            await runtime.store.write_async(lambda db: _forget(db, row.id or 0))
            raise
        await runtime.store.write_async(lambda db: _forget(db, row.id or 0))
        return started
    finally:
        busy.discard(row.id or 0)


async def _check(row: Launch, plan: again.Again) -> None:
    if _runs(row) and not row.watched:
        raise Conflict(
            f"{ids.public_id('L', row.id or 0)} is not a process that this daemon follows, so it cannot be stopped; "
            "clone starts the same anew."
        )
    forced = plan.body.model_copy(update={"force": True})
    planned = await asyncio.to_thread(start.plan, forced)
    if (plan.body.port or planned.facts.port) != row.port:
        # Its own port will be free; another one must be so already.
        await asyncio.to_thread(start.plan, plan.body)
    host = planned.facts.host
    if host and host not in f"{row.command or ''} {' '.join(row.argv or ())}":
        await asyncio.to_thread(_may_listen, plan.body.port or planned.facts.port, host)


def _may_listen(port: int | None, host: str) -> None:
    try:
        port_free(port or 0, host)
    except OSError as error:
        raise InvalidFact(
            f"No server can listen at {host} on this machine ({error.strerror}): nothing was stopped."
        ) from None


async def _carry_out(
    runtime: Runtime, row: Launch, plan: again.Again, asked: again.RestartIn, wanted: Wanted
) -> anew.Started:
    """A daemon that ends in the middle of it leaves it to the next one."""
    number = row.id or 0
    await _stopped(runtime, row, asked.grace_s)
    forced = plan.body.model_copy(update={"force": True})
    planned = await asyncio.to_thread(start.plan, forced)
    if not asked.force:
        await _port_freed(plan.body.port or planned.facts.port, planned.facts.host, ids.public_id("L", number))
    await _gpus_freed(runtime, row)
    with runtime.store.read() as db:
        row = db.get(Launch, number) or row
    return await anew.start(runtime, row, plan, wanted.session_id, wanted.teller, wanted.number)


def _runs(row: Launch) -> bool:
    return row.ended_at is None and row.state in (*ALIVE, "failed")


async def _stopped(runtime: Runtime, row: Launch, grace_s: float | None) -> None:
    if not _runs(row):
        return
    service: Launches = runtime.live["launch_service"]
    try:
        await service.stop(row.id or 0, grace_s)
    except Conflict:
        # It may just have ended, by itself or as an earlier daemon had asked it to.
        with runtime.store.read() as db:
            if _runs(db.get(Launch, row.id) or row):
                raise
    if not await service.wait_ended(row.id or 0, _STOP_WITHIN_S):
        public = ids.public_id("L", row.id or 0)
        raise Conflict(f"{public} has not ended within {_STOP_WITHIN_S:g} s, so nothing was started.")


async def _port_freed(port: int | None, host: str | None, launch: str) -> None:
    """The kernel may hold a port for a moment after its process."""
    deadline = asyncio.get_running_loop().time() + _FREE_WITHIN_S
    while port is not None and await asyncio.to_thread(port_taken, port, host):
        if asyncio.get_running_loop().time() > deadline:
            raise Conflict(
                f"{launch} does not run any more, but somebody else listens on port {port}: nothing was started.",
                port=port,
            )
        await asyncio.sleep(_LOOK_S)


async def _gpus_freed(runtime: Runtime, row: Launch) -> None:
    """A rank that outlives its server in the driver still holds its memory; after a while the start is tried anyway."""
    seen = getattr(runtime.live.get("hardware"), "processes", ())
    pids = [one.process.pid for one in seen if one.launch_id == row.id]
    deadline = asyncio.get_running_loop().time() + _FREE_WITHIN_S
    while any((stat := read_stat(pid)) and stat.living for pid in pids):
        if asyncio.get_running_loop().time() > deadline:
            return
        await asyncio.sleep(_LOOK_S)


# --- kept until it is done -------------------------------------------------------------------------------------------


def _remember(db: Session, number: int, asked: again.RestartIn, session_id: int | None, teller: str) -> Wanted:
    row = db.get(Launch, number)
    assert row is not None
    wanted = Wanted(ids.allocate(db, "launch"), without_secrets(asked), session_id, teller, iso(utc_now()))
    row.process = {**(row.process or {}), _KEY: asdict(wanted)}
    db.add(row)
    events.record(
        db, "launch.changed", ids.public_id("L", number), row.session_id, restart=ids.public_id("L", wanted.number)
    )
    return wanted


def _forget(db: Session, number: int, why: str | None = None) -> None:
    row = db.get(Launch, number)
    if row is None or _KEY not in (row.process or {}):
        return
    row.log_path = again.where_its_log_is(row)
    row.process = {name: value for name, value in (row.process or {}).items() if name != _KEY}
    if why is not None:
        row.warnings = [*row.warnings, f"The restart that was asked for was not completed: {why}"]
        events.record(db, "launch.changed", ids.public_id("L", number), row.session_id, restart_failed=why)
    db.add(row)


def without_secrets(asked: again.RestartIn) -> dict[str, Any]:
    """The request as JSON, each secret as a reference and the caller's environment left out."""
    told = asked.model_dump(mode="json", exclude={"caller_env"}, exclude_defaults=True)
    if "env" in told:
        told["env"] = redact.redact_env(told["env"])
    if "set" in told:
        told["set"] = {name: _flag(name, value) for name, value in told["set"].items()}
    return told


def _flag(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return redact.redact_argv([f"--{name.lstrip('-')}", value])[1]
    return [_flag(name, one) for one in value] if isinstance(value, list) else value


def with_secrets(told: Mapping[str, Any], known: Mapping[str, str], launch: str) -> again.RestartIn:
    """The request again; raises InvalidFact where nobody knows a secret of its flags any more."""
    flags, env = told.get("set", {}), told.get("env", {})
    texts = [one for value in flags.values() for one in (value if isinstance(value, list) else [value])]
    named = {name for text in texts if isinstance(text, str) for name in a.references(text)}
    secrets = {name for name in named if redact.is_secret_name(name)}
    a.must_know(secrets, known, launch)
    filled = {
        name: a.filled([value], secrets, known)[0]
        if isinstance(value, str)
        else a.filled(value, secrets, known)
        if isinstance(value, list)
        else value
        for name, value in flags.items()
    }
    return again.RestartIn(**{**told, "set": filled, "env": a.resolved(env, known)[0], "caller_env": dict(known)})


# --- by the next daemon ----------------------------------------------------------------------------------------------


async def complete(runtime: Runtime) -> None:
    """Carry out what an earlier daemon was asked for and died over; what is long ago is told and left."""
    with runtime.store.read() as db:
        rows = db.exec(select(Launch).where(col(Launch.watched).is_(True))).all()
        numbers = [row.id or 0 for row in rows if _KEY in (row.process or {})]
    for number in numbers:
        await _complete(runtime, number)


async def _complete(runtime: Runtime, number: int) -> None:
    """Unless somebody restarts it just now: one stop and one start at a time."""
    busy: set[int] = runtime.live.setdefault("restarting", set())
    if number in busy:
        return
    busy.add(number)
    try:
        await _go_on(runtime, number)
    finally:
        busy.discard(number)


async def _go_on(runtime: Runtime, number: int) -> None:
    """The row is read anew: while others were completed, its restart may have been asked for again and done."""
    with runtime.store.read() as db:
        row = db.get(Launch, number)
        told = (row.process or {}).get(_KEY) if row is not None else None
        if row is None or told is None:
            return
        wanted = Wanted(**told)
        done = db.get(Launch, wanted.number) is not None
    why = None if done else _not_meant_any_more(row, wanted)
    if done or why:
        await runtime.store.write_async(lambda db: _forget(db, number, why))
        return
    log.info("L%d was to be restarted as L%d when the daemon ended: going on with it", number, wanted.number)
    try:
        asked = with_secrets(wanted.asked, _known(row), ids.public_id("L", number))
        plan = await asyncio.to_thread(again.again, row, asked)
        await _carry_out(runtime, row, plan, asked, wanted)
    except SitrepError as error:
        why = error.detail
        log.warning("L%d could not be restarted: %s", number, why)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        log.exception("L%d could not be restarted", number)
    await runtime.store.write_async(lambda db: _forget(db, number, why))


def _known(row: Launch) -> Mapping[str, str]:
    """Where secrets are looked for: in the environment of the server, should it still run, and in the daemon's own."""
    environ = read_environ(row.pid) if row.pid and _runs(row) else None
    return {**a.own_environment(), **(environ or {})}


def _not_meant_any_more(row: Launch, wanted: Wanted) -> str | None:
    if ((row.process or {}).get("identity") or {}).get("boot_id") != boot_id():
        return "the machine was restarted meanwhile."
    if utc_now() - datetime.fromisoformat(wanted.at) > _STILL_MEANT:
        return "no daemon ran for over an hour."
    return None
