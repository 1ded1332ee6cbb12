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

log = logging.getLogger(__name__)
_LOOKS_ANYWAY_S = 10.0


class ModelCards(Service):
    """A folder is looked at once in a session; one that nothing can be made of is named in the daemon's log."""

    name = "model cards"

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        with (
            runtime.store.read() as db
        ):  # not when the loop begins, which is a moment after the first launch may be told
            self._cursor = events.last_event_id(db)

    async def run(self) -> None:
        async with aclosing(self.runtime.store.bell.listen(_LOOKS_ANYWAY_S, "launch.")) as bell:
            while await anext(bell, None) is not None:
                with self.runtime.store.read() as db:
                    self._cursor, started = self._started(db, self._cursor)
                for session, cwd, told in started:
                    path = await asyncio.to_thread(_folder, cwd, told)
                    if path is not None:
                        await self.make(session, path)

    async def make(self, session: int | None, path: Path) -> None:
        """Make the card unless the folder has one in this session."""
        from sitrepd.modelcards import service
        from sitrepd.modelcards.card import read_card

        with self.runtime.store.read() as db:
            if _known(db, session, path):
                return
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

    def _started(self, db: Session, cursor: int) -> tuple[int, Sequence[tuple[int | None, str | None, str]]]:
        """(the last event, session, folder and told model of the launches that began since)"""
        last = events.last_event_id(db)
        if last == cursor:
            return cursor, ()
        table = self.runtime.registry.by_word["launch"].table
        found: list[tuple[int | None, str | None, str]] = []
        for subject in events.subjects_since(db, cursor, "launch.created"):
            parsed = ids.parse_id(subject)
            launch = db.get(table, parsed[1]) if parsed else None
            if launch is None or not launch.watched:  # type: ignore[attr-defined]
                continue
            named = _named(launch.model, launch.draft_model)  # type: ignore[attr-defined]
            found += [(launch.session_id, launch.cwd, told) for told in named]  # type: ignore[attr-defined]
        return last, list(dict.fromkeys(found))


def _folder(cwd: str | None, told: str) -> Path | None:
    """Where a model that was told lies; None where it is a hub's id, or no folder that can be looked into."""
    try:
        path = Path(cwd or "/") / Path(told).expanduser()
        return path if (path / "config.json").is_file() else None
    except (OSError, RuntimeError) as error:  # a RuntimeError where the user of a ~ is not known
        log.info("%s has no card: %s", told, error)
        return None


def _named(*told: str | None) -> Iterable[str]:
    return [one for one in told if one]


def _known(db: Session, session: int | None, path: Path) -> bool:
    same = select(Model.id).where(col(Model.path) == str(path), col(Model.session_id) == session)
    return db.exec(same.limit(1)).first() is not None
