"""The starts that are under way: from a checked request to a process that runs, its row, and its watch."""

from __future__ import annotations

import asyncio
import shutil
from typing import Any

from sqlmodel import Session

from sitrepd.errors import Conflict
from sitrepd.facts import Scope, create
from sitrepd.launches import autopsy, start
from sitrepd.launches.followed import Followed
from sitrepd.launches.launchers.base import Launched
from sitrepd.launches.launchers.local import LocalLauncher
from sitrepd.launches.models import Launch, LaunchCreate, LaunchPhase, LaunchRecord
from sitrepd.launches.start import Plan
from sitrepd.launches.writers import refuse_a_shared_log
from sitrepd.runtime import Runtime
from sitrepd.storage import ids


class Starts:
    """`under_way` has the numbers of launches whose process may run already, and whose row is not written yet."""

    def __init__(self, runtime: Runtime, followed: Followed) -> None:
        self._runtime = runtime
        self._followed = followed
        self._launcher = LocalLauncher()
        self.under_way: set[int] = set()

    async def start(self, body: LaunchCreate, session_id: int | None, provenance: str, given: int | None) -> int:
        """The number of the launch, which may be given; nothing is left behind when it could not be started."""
        try:
            plan = await asyncio.to_thread(start.plan, body)
        except Conflict as refused:
            raise self._with_holder(refused) from refused
        await asyncio.to_thread(self._refuse_a_shared_log, plan)
        number = given
        if number is None:
            number = await self._runtime.store.write_async(lambda db: ids.allocate(db, "launch"))
        self.under_way.add(number)
        try:
            await self._start(plan, number, session_id, provenance)
        finally:
            self.under_way.discard(number)
        return number

    def _with_holder(self, refused: Conflict) -> Conflict:
        """A taken port, with the launch that has it."""
        port = refused.extra.get("port")
        for number, watch in self._followed.watches.items():
            if port is not None and watch.facts.port == port and not watch.port_taken:
                holder = ids.public_id("L", number)
                more = {**refused.extra, "launch": holder}
                return Conflict(f"{refused.detail} That is {holder}: `sitrep stop {holder}` ends it.", **more)
        return refused

    def _refuse_a_shared_log(self, plan: Plan) -> None:
        with self._runtime.store.read() as db:
            refuse_a_shared_log(db, plan)

    async def _start(self, plan: Plan, number: int, session_id: int | None, provenance: str) -> None:
        state_dir = self._runtime.settings.launches_dir / ids.public_id("L", number)
        request = plan.request(state_dir)
        columns = plan.columns(request)
        try:
            start.remember(columns, state_dir, session_id, provenance, plan.body)
            launched = await asyncio.to_thread(self._launcher.launch, request)
        except Exception:
            await asyncio.to_thread(shutil.rmtree, state_dir, ignore_errors=True)
            raise
        row = await self._runtime.store.write_async(
            lambda db: insert(db, self._runtime, number, columns, launched, session_id, provenance)
        )
        self._followed.begin(number, launched, plan.engine, plan.facts, row)


def insert(
    db: Session,
    runtime: Runtime,
    number: int,
    columns: dict[str, Any],
    launched: Launched,
    session_id: int | None,
    provenance: str,
) -> Launch:
    """The row of a process that was started, whether just now or by a daemon that died before it could store it."""
    scope = Scope(runtime.registry, provenance, session_id)
    told = {name: columns[name] for name in ("model", "draft_model", "from_launch") if columns.get(name)}
    record = LaunchRecord(at=launched.started_at, **told)
    row: Launch = create(db, runtime.registry.by_word["launch"], record, scope, number)
    for name, value in columns.items():
        if name not in told:
            setattr(row, name, value)
    row.host_id = runtime.host_id
    row.log_path = str(launched.logs[0].path) if launched.logs else None
    row.state, row.watched = "starting", True
    row.started_at = launched.started_at
    row.process = (columns.get("process") or {}) | start.process_columns(launched) | autopsy.begin_of(columns)
    row.warnings = list(launched.warnings)
    db.add(LaunchPhase(launch_id=number, name="starting", started_at=launched.started_at))
    db.add(row)
    return row
