"""What the first hand-over after a start would wait for is done before: a client gives its hook one second."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from sqlmodel import col, select

from sitrepd.checkpoints.service import checkpoints
from sitrepd.runtime import Runtime
from sitrepd.services import Service
from sitrepd.sessions.models import SessionRow

_AFTER_S = 1.0


class Warm(Service):
    """Once, as soon as there is a session to write of; a daemon without one stays as small as it was."""

    name = "warm"

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def run(self) -> None:
        async with aclosing(self._runtime.store.bell.listen(None, "session.")) as bell:
            await asyncio.sleep(_AFTER_S)  # what the start itself has to do comes first
            while (session := await asyncio.to_thread(self._newest)) is None:
                if await anext(bell, None) is None:
                    return
        await asyncio.to_thread(self._warm, session)

    def _newest(self) -> int | None:
        query = select(SessionRow.id).where(col(SessionRow.ended_at).is_(None)).order_by(col(SessionRow.id).desc())
        with self._runtime.store.read() as db:
            return db.exec(query.limit(1)).first()

    def _warm(self, session: int) -> None:
        """Off the event loop: what is imported at the first hook, and the texts that a checkpoint is made of."""
        from sitrepd import routing  # noqa: F401
        from sitrepd.agents import hooks  # noqa: F401

        checkpoints(self._runtime).try_out(session)
