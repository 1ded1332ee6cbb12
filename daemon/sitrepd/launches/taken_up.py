"""Launches of an earlier daemon, taken up again: those in the store, and those that it died over before they were."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sqlmodel import col, select

from sitrepd.launches import start, store
from sitrepd.launches.discovery import adopt
from sitrepd.launches.engines import base as e
from sitrepd.launches.engines import engine_for, engine_named
from sitrepd.launches.followed import Followed
from sitrepd.launches.launchers.base import LaunchError
from sitrepd.launches.launchers.local import LocalLauncher
from sitrepd.launches.models import Launch, LaunchPhase
from sitrepd.launches.starts import Starts, insert
from sitrepd.launches.stops import Stops
from sitrepd.runtime import Runtime
from sitrepd.storage import ids
from sitrepd.storage.store import Store

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TakingUp:
    """One that cannot be taken up is told of, and does not keep the others from it."""

    runtime: Runtime
    followed: Followed
    starts: Starts
    stops: Stops

    async def all(self) -> None:
        """Those in the store first: a folder tells nothing new of them."""
        rows = await asyncio.to_thread(_watched, self.runtime.store)
        for row, phases in rows:
            if row.id in self.followed.watches:
                continue
            try:
                await self._stored(row, phases)
            except Exception:  # the others are not to suffer for it
                log.exception("L%s cannot be taken up again", row.id)
        await self._all_unstored()

    async def _stored(self, row: Launch, phases: Sequence[LaunchPhase]) -> None:
        launched = start.launched_from(row.process or {}, row.started_at)
        engine, facts = engine_of(row)
        self.followed.begin(row.id or 0, launched, engine, facts, row, phases)
        await self.stops.go_on(row)

    async def _all_unstored(self) -> None:
        """A daemon may have died between the start of a process and the commit that tells of it."""
        for folder in sorted(self.runtime.settings.launches_dir.glob("L*")):
            parsed = ids.parse_id(folder.name)
            if parsed is None or not (folder / start.REQUEST_NAME).is_file():
                continue
            try:
                await self._unstored(folder, parsed[1])
            except (LaunchError, OSError, ValueError, KeyError) as error:
                log.debug("%s holds no launch: %s", folder, error)
            except Exception:
                log.exception("%s cannot be taken up", folder)

    async def _unstored(self, folder: Path, number: int) -> None:
        with self.runtime.store.read() as db:
            if number in self.starts.under_way or db.get(Launch, number) is not None:
                return
        told = json.loads((folder / start.REQUEST_NAME).read_text())
        launched = await asyncio.to_thread(LocalLauncher().adopt, folder)
        row = await self.runtime.store.write_async(
            lambda db: insert(
                db, self.runtime, number, told["columns"], launched, told["session_id"], told["provenance"]
            )
        )
        engine, facts = engine_of(row)
        self.followed.begin(number, launched, engine, facts, row)


def _watched(of: Store) -> list[tuple[Launch, list[LaunchPhase]]]:
    """Those that had not ended, with their phases."""
    with of.read() as db:
        rows = db.exec(select(Launch).where(col(Launch.watched).is_(True), col(Launch.ended_at).is_(None))).all()
        return [
            (row, list(db.exec(select(LaunchPhase).where(LaunchPhase.launch_id == row.id)).all()))
            for row in rows
            if row.process and row.process.get("identity")
        ]


def engine_of(row: Launch) -> tuple[e.Engine, e.CommandFacts]:
    """Which engine it is, and what its command says."""
    if adopt.is_adopted(row):
        return adopt.described(row)
    try:
        engine = engine_named(row.engine or "generic", row.ready_url, row.ready_pattern)
    except KeyError:
        engine = engine_for([], row.ready_url, row.ready_pattern)
    argv, env = store.words_of(row)
    facts = engine.describe(argv, env)
    zone = (row.process or {}).get("timezone")
    facts = replace(facts, timezone=zone) if zone else facts
    # Told by the caller or by the log, where the command does not say it.
    return engine, replace(facts, port=row.port) if row.port else facts
