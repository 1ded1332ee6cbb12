"""The model and the draft of each launch on this host get their cards by themselves, when it starts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from pathlib import Path

from sqlmodel import Session, col, select

from sitrepd.errors import SitrepError
from sitrepd.facts import Scope
from sitrepd.modelcards.models import Model
from sitrepd.runtime import Runtime
from sitrepd.services import Service
from sitrepd.storage import events, ids
from sitrepd.storage.base import Event

log = logging.getLogger(__name__)
_LOOKS_ANYWAY_S = 10.0


class ModelCards(Service):
    """A folder is looked at once in a session; one that nothing can be made of is named in the daemon's log."""

    name = "model cards"

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    async def run(self) -> None:
        with self.runtime.store.read() as db:
            cursor = events.last_event_id(db)
        async with aclosing(self.runtime.store.bell.listen(_LOOKS_ANYWAY_S)) as bell:
            while await anext(bell, None) is not None:
                with self.runtime.store.read() as db:
                    cursor, waiting = self._started(db, cursor)
                for session, path in waiting:
                    await self.make(session, path)

    async def make(self, session: int | None, path: Path) -> None:
        """Make the card unless the folder has one in this session."""
        from sitrepd.modelcards import service
        from sitrepd.modelcards.card import read_card

        try:
            card = await asyncio.to_thread(read_card, path)
        except SitrepError as error:
            log.info("%s has no card: %s", path, error.detail)
            return
        except Exception:
            log.exception("%s has no card", path)
            return
        scope = Scope(self.runtime.registry, f"observed:{path}", session)

        def job(db: Session) -> None:
            if not _known(db, session, path):
                service.store(db, scope, card)

        await self.runtime.store.write_async(job)

    def _started(self, db: Session, cursor: int) -> tuple[int, Sequence[tuple[int | None, Path]]]:
        """(the last event, session and folder of the models of launches that began since)"""
        last = events.last_event_id(db)
        if last == cursor:
            return cursor, ()
        query = select(Event.subject).where(col(Event.id) > cursor, col(Event.kind) == "launch.created")
        table = self.runtime.registry.by_word["launch"].table
        found: list[tuple[int | None, Path]] = []
        for subject in db.exec(query.order_by(col(Event.id))).all():
            parsed = ids.parse_id(subject)
            launch = db.get(table, parsed[1]) if parsed else None
            if launch is None or not launch.watched:  # type: ignore[attr-defined]
                continue
            for told in _named(launch.model, launch.draft_model):  # type: ignore[attr-defined]
                path = Path(launch.cwd or "/") / Path(told).expanduser()  # type: ignore[attr-defined]
                if (path / "config.json").is_file() and not _known(db, launch.session_id, path):
                    found.append((launch.session_id, path))
        return last, list(dict.fromkeys(found))


def _named(*told: str | None) -> Iterable[str]:
    return [one for one in told if one]


def _known(db: Session, session: int | None, path: Path) -> bool:
    same = select(Model.id).where(col(Model.path) == str(path), col(Model.session_id) == session)
    return db.exec(same.limit(1)).first() is not None
