"""Reads and compiles what checkpoints are made of, once the daemon has started: the first one does not wait for it."""

from __future__ import annotations

import asyncio

from sqlmodel import col, select

from sitrepd.checkpoints.service import checkpoints
from sitrepd.runtime import Runtime
from sitrepd.services import Service
from sitrepd.sessions.models import SessionRow

_AFTER_S = 2.0
"""Whoever has started the daemon to ask it something is answered before."""


class WarmUp(Service):
    """Tries out a checkpoint of the session that was opened last, if one is open."""

    name = "warm-up"

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def run(self) -> None:
        await asyncio.sleep(_AFTER_S)
        session_id = await asyncio.to_thread(self._session)
        if session_id is not None:
            await asyncio.to_thread(checkpoints(self._runtime).try_out, session_id)

    def _session(self) -> int | None:
        with self._runtime.store.read() as db:
            query = select(SessionRow.id).where(col(SessionRow.ended_at).is_(None))
            return db.exec(query.order_by(col(SessionRow.id).desc()).limit(1)).first()
