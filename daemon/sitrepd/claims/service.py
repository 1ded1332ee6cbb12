"""Claims are made for launches that live, and end with their launch, their process or their time."""

from __future__ import annotations

import asyncio
import getpass
import os
import time
from collections.abc import Collection, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlmodel import Session, col, select

from sitrepd.claims.gpus import wanted_gpus
from sitrepd.claims.models import Claim
from sitrepd.clock import utc_now
from sitrepd.hardware.live import ASKING, LiveHardware
from sitrepd.launches.engines import engine_for
from sitrepd.launches.launchers.base import ProcessIdentity
from sitrepd.launches.models import ALIVE, Launch
from sitrepd.launches.processes import identify, is_alive, read_environ
from sitrepd.launches.store import words_of
from sitrepd.runtime import Runtime
from sitrepd.services import Service
from sitrepd.storage import events, ids

_QUIET_S = 5.0
_PAUSE_S = 0.1
_MADE_FOR = "observed:launch"


class Claims(Service):
    """Looks after each event and every five seconds; all that it does follows from the rows."""

    name = "claims"

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    async def run(self) -> None:
        await self._look()
        looked_at, seen = time.monotonic(), self._last_event()
        async for _ in self.runtime.store.bell.listen(_QUIET_S, "launch.", "claim."):
            # Most commits are figures of servers, of which no event tells.
            if self._last_event() == seen and time.monotonic() - looked_at < _QUIET_S:
                continue
            seen = self._last_event()
            await self._look()
            looked_at = time.monotonic()
            await asyncio.sleep(_PAUSE_S)

    def _last_event(self) -> int:
        with self.runtime.store.read() as db:
            return events.last_event_id(db)

    async def _look(self) -> None:
        over, missing = await asyncio.to_thread(self._differences)
        if over:
            await self.runtime.store.write_async(lambda db: end_claims(db, over))
        if missing:
            await self.runtime.store.write_async(lambda db: _insert(db, missing, self.runtime.host_id))

    def _differences(self) -> tuple[dict[int, str], list[dict[str, Any]]]:
        """(claims that are over and why, claims that launches lack)"""
        hardware: LiveHardware = self.runtime.live.get("hardware") or LiveHardware()
        with self.runtime.store.read() as db:
            claims = db.exec(select(Claim).where(col(Claim.ended_at).is_(None))).all()
            living = _living(db)
            told = set(db.exec(select(Claim.launch_id).where(col(Claim.launch_id).in_(living))).all())
            over = {claim.id or 0: why for claim in claims if (why := why_over(claim, living, utc_now()))}
            if hardware.reason == ASKING:
                return over, []
            rows = [row for number in sorted(living - told) if (row := db.get(Launch, number)) is not None]
        uuids = [gpu.uuid for gpu in hardware.facts]
        return over, [one for row in rows for one in claims_of(row, uuids)]


def _living(db: Session) -> set[int]:
    """The numbers alone: a row has all settings of its server."""
    query = select(Launch.id).where(
        col(Launch.watched).is_(True), col(Launch.ended_at).is_(None), col(Launch.state).in_(ALIVE)
    )
    return {number for number in db.exec(query).all() if number is not None}


def why_over(claim: Claim, living: Collection[int], now: datetime) -> str | None:
    if claim.until is not None and claim.until <= now:
        return "its time is over"
    if claim.launch_id is not None and claim.provenance == _MADE_FOR and claim.launch_id not in living:
        return f"{ids.public_id('L', claim.launch_id)} has ended"
    if claim.process is not None and not is_alive(ProcessIdentity(**claim.process)):
        return f"pid {claim.pid} has ended"
    return None


def claims_of(row: Launch, uuids: list[str | None]) -> list[dict[str, Any]]:
    """The columns of the claims that a launch makes: its GPUs and its port."""
    argv, env = words_of(row)
    facts = engine_for(argv, row.ready_url, row.ready_pattern).describe(argv, env)
    environ = {**((read_environ(row.pid) if row.pid else None) or {}), **env}
    gpus = wanted_gpus(facts, environ, uuids).used
    owner = environ.get("USER") or user()
    shared = {
        "launch_id": row.id,
        "session_id": row.session_id,
        "host_id": row.host_id,
        "owner": owner,
        "why": row.name,
    }
    told = [{"resource": "gpu", "numbers": list(gpus), **shared}] if gpus else []
    return told + ([{"resource": "port", "numbers": [row.port], **shared}] if row.port else [])


def user() -> str:
    """Whose daemon this is."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return str(os.getuid())


def _insert(db: Session, missing: list[dict[str, Any]], host_id: int | None) -> None:
    for columns in missing:
        row = Claim(
            **{**columns, "host_id": columns["host_id"] or host_id}, id=ids.allocate(db, "claim"), provenance=_MADE_FOR
        )
        db.add(row)
        events.record(db, "claim.created", ids.public_id("Q", row.id or 0), row.session_id)


def end_claims(db: Session, over: Mapping[int, str]) -> None:
    """End the numbered claims, each with the reason."""
    for number, why in over.items():
        row = db.get(Claim, number)
        if row is not None and row.ended_at is None:
            row.ended_at = utc_now()
            db.add(row)
            events.record(db, "claim.ended", ids.public_id("Q", number), row.session_id, why=why)


def process_of(pid: int) -> dict[str, Any] | None:
    """The identity of a process, as it is stored with a claim; None where there is no such process."""
    found = identify(pid)
    return asdict(found) if found else None
