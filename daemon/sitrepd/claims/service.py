"""Claims are made for launches that live, and end with their launch, their process or their time."""

from __future__ import annotations

import asyncio
import getpass
import os
from collections.abc import Mapping
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
_MADE_FOR = "observed:launch"


class Claims(Service):
    """Looks after each commit and every five seconds; all that it does follows from the rows."""

    name = "claims"

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    async def run(self) -> None:
        seen = -1
        await self._look()
        async for rung in self.runtime.store.bell.listen(_QUIET_S):
            commits = self.runtime.store.bell.commits
            if rung and commits == seen:
                continue
            await self._look()
            seen = self.runtime.store.bell.commits
            await asyncio.sleep(0.1)

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
            launches = _living(db)
            told = set(db.exec(select(Claim.launch_id).where(col(Claim.launch_id).in_(launches))).all())
        over = {claim.id or 0: why for claim in claims if (why := why_over(claim, launches, utc_now()))}
        if hardware.reason == ASKING:
            return over, []
        uuids = [gpu.uuid for gpu in hardware.facts]
        missing = [one for number, row in launches.items() if number not in told for one in claims_of(row, uuids)]
        return over, missing


def _living(db: Session) -> dict[int, Launch]:
    query = select(Launch).where(
        col(Launch.watched).is_(True), col(Launch.ended_at).is_(None), col(Launch.state).in_(ALIVE)
    )
    return {row.id: row for row in db.exec(query).all() if row.id is not None}


def why_over(claim: Claim, living: Mapping[int, Launch], now: datetime) -> str | None:
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
