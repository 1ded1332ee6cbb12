"""Dropping what is too old: checkpoints, deliveries and the log of changes; what was told is never dropped."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlmodel import Session, col, delete, func, select

from sitrepd.checkpoints import echoes
from sitrepd.checkpoints.models import Checkpoint, Delivery
from sitrepd.clock import utc_now
from sitrepd.errors import StoreUnusable
from sitrepd.history.models import Plan
from sitrepd.runtime import Runtime
from sitrepd.services import Service
from sitrepd.sessions.models import SessionRow
from sitrepd.settings import Settings
from sitrepd.slices import Registry
from sitrepd.storage import events, ids
from sitrepd.storage.base import Event
from sitrepd.storage.search import index_of

log = logging.getLogger(__name__)
_FIRST_AFTER_S = 60.0
_BATCH = 50
_EVENTS_BATCH = 5000


@dataclass
class _Found:
    """Checkpoints to drop with their sessions, and those that are old enough but kept, with the reason."""

    drop: list[tuple[int, int | None]] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)


class Retention(Service):
    """Drops what is too old, every so many hours."""

    name = "retention"

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def run(self) -> None:
        scheduler = self._runtime.scheduler
        assert scheduler is not None
        job = scheduler.add_job(
            self.drop, "interval", seconds=self._runtime.settings.retention_h * 3600, id="retention",
            next_run_time=utc_now() + timedelta(seconds=_FIRST_AFTER_S), replace_existing=True, misfire_grace_time=None,
        )  # fmt: skip
        try:
            await asyncio.Event().wait()
        finally:
            if scheduler.get_job(job.id) is not None:
                job.remove()

    async def drop(self) -> None:
        try:
            await apply(self._runtime)
        except StoreUnusable as error:
            log.warning("nothing that is too old could be dropped: %s", error.detail)


async def apply(runtime: Runtime) -> Plan:
    """Drop what is too old, a little at a time, so that nobody who writes waits long."""
    settings, registry = runtime.settings, runtime.registry
    done = Plan(dry_run=False, checkpoints=[], kept={}, deliveries=0, events=0)
    found = await asyncio.to_thread(_look, runtime)
    done.kept = found.kept
    for start in range(0, len(found.drop), _BATCH):
        some = [number for number, _ in found.drop[start : start + _BATCH]]
        dropped, kept = await runtime.store.write_async(
            lambda db, some=some: _drop_checkpoints(db, registry, some)  # type: ignore[misc]
        )
        done.checkpoints += dropped
        done.kept |= kept
    sessions = await asyncio.to_thread(_sessions, runtime)
    for session_id in sessions:
        done.deliveries += await runtime.store.write_async(
            lambda db, number=session_id: echoes.forget(db, number, settings.deliveries_keep)  # type: ignore[misc]
        )
    while count := await runtime.store.write_async(lambda db: _drop_events(db, settings)):
        done.events += count
    return done


def plan(db: Session, settings: Settings, registry: Registry) -> Plan:
    """What would be dropped now."""
    found = _checkpoints(db, settings, registry)
    old = sum(len(echoes.beyond(db, number, settings.deliveries_keep)) for number in _with_deliveries(db))
    count = db.exec(select(func.count()).select_from(Event).where(*_old_events(db, settings))).one()
    names = [ids.public_id("C", number) for number, _ in found.drop]
    return Plan(dry_run=True, checkpoints=names, kept=found.kept, deliveries=old, events=count)


# --- checkpoints -------------------------------------------------------------------------------------------------


def _checkpoints(db: Session, settings: Settings, registry: Registry) -> _Found:
    before = utc_now() - timedelta(days=settings.checkpoints_keep_d)
    found = _Found()
    for session_id in db.exec(select(Checkpoint.session_id).distinct()).all():
        for row in _old(db, session_id, settings.checkpoints_keep, before):
            why = _why_kept(db, registry, row)
            if why is None:
                found.drop.append((row.id, session_id))
            else:
                found.kept[ids.public_id("C", row.id)] = why
    return found


def _old(db: Session, session_id: int | None, keep: int, before: datetime) -> Sequence[Any]:
    """Those of a session that are neither young nor among the newest; what was imported is a told fact, and stays."""
    mine = (
        col(Checkpoint.session_id).is_(None) if session_id is None else col(Checkpoint.session_id) == session_id,
        col(Checkpoint.imported_from).is_(None),
    )
    newest = select(Checkpoint.id).where(*mine).order_by(col(Checkpoint.id).desc()).limit(keep)
    query = select(Checkpoint.id, Checkpoint.pinned, Checkpoint.name).where(
        *mine, col(Checkpoint.id).not_in(newest), col(Checkpoint.at) < before
    )
    return db.exec(query.order_by(col(Checkpoint.id))).all()


def _why_kept(db: Session, registry: Registry, row: Any) -> str | None:
    if row.pinned:
        return "pinned"
    if row.name:
        return f"named {row.name!r}"
    waiting = select(Delivery.id).where(Delivery.checkpoint_id == row.id, col(Delivery.echoed).is_(False))
    delivery = db.exec(waiting.order_by(col(Delivery.id).desc())).first()
    if delivery is not None:
        return f"delivery {delivery} was not echoed"
    return _linked(db, registry, row.id) or _cited(db, registry, row.id)


def _linked(db: Session, registry: Registry, number: int) -> str | None:
    """A fact that refers to it by a field of its own."""
    for noun in registry.nouns:
        column = getattr(noun.table, "checkpoint_id", None)
        if column is None or noun.table is Delivery:
            continue
        found = db.exec(select(noun.table.id).where(column == number).limit(1)).first()
        if found is not None:
            return f"cited by {_called(registry, noun.word, found)}"
    return None


def _cited(db: Session, registry: Registry, number: int) -> str | None:
    """A fact whose text names it, its evidence included."""
    others = sorted(index_of(db).naming(db, ids.public_id("C", number)) - {("checkpoint", number)})
    return f"cited by {_called(registry, *others[0])}" if others else None


def _called(registry: Registry, word: str, number: int) -> str:
    noun = registry.by_word[word]
    return noun.public_id(number) if noun.prefix else f"{word} {number}"


def _look(runtime: Runtime) -> _Found:
    with runtime.store.read() as db:
        return _checkpoints(db, runtime.settings, runtime.registry)


def _drop_checkpoints(db: Session, registry: Registry, numbers: Sequence[int]) -> tuple[list[str], dict[str, str]]:
    """Drop these checkpoints, except those that something has been told since to keep: they come with the reason."""
    query = select(Checkpoint.id, Checkpoint.pinned, Checkpoint.name, Checkpoint.session_id)
    chosen: dict[int, int | None] = {}
    kept = {}
    for row in _rows(db, query.where(col(Checkpoint.id).in_(numbers)).order_by(col(Checkpoint.id))):
        why = _why_kept(db, registry, row)
        if why is None:
            chosen[row.id] = row.session_id
        else:
            kept[ids.public_id("C", row.id)] = why
    db.exec(delete(Delivery).where(col(Delivery.checkpoint_id).in_(chosen)))
    db.exec(delete(Checkpoint).where(col(Checkpoint.id).in_(chosen)))
    names = [ids.public_id("C", number) for number in chosen]
    for name, session_id in zip(names, chosen.values(), strict=True):
        events.record(db, "checkpoint.deleted", name, session_id, why="retention")
    return names, kept


def _rows(db: Session, query: Any) -> Sequence[Any]:
    return list(db.exec(query).all())


# --- deliveries and events ---------------------------------------------------------------------------------------


def _with_deliveries(db: Session) -> Sequence[int | None]:
    return db.exec(select(Delivery.session_id).distinct()).all()


def _sessions(runtime: Runtime) -> Sequence[int | None]:
    with runtime.store.read() as db:
        return _with_deliveries(db)


def _old_events(db: Session, settings: Settings) -> tuple[Any, ...]:
    """Too old, and before the latest checkpoint of each session, which compares itself with what came after.

    A session that was closed as long ago keeps nothing: opened again, it says that its log is not whole.
    What says that a file was imported stays, so that it is not imported twice.
    """
    before = utc_now() - timedelta(days=settings.events_keep_d)
    latest = select(func.max(Checkpoint.event)).where(col(Checkpoint.imported_from).is_(None))
    over = select(SessionRow.id).where(col(SessionRow.ended_at) < before)
    mine = col(Checkpoint.session_id)
    marks = db.exec(latest.where(mine.is_(None) | mine.not_in(over)).group_by(mine)).all()
    needed = min(marks) if marks else db.exec(latest).one() or 0
    return (col(Event.at) < before, col(Event.id) <= needed, ~col(Event.kind).startswith("session."))


def _drop_events(db: Session, settings: Settings) -> int:
    some = select(Event.id).where(*_old_events(db, settings)).order_by(col(Event.id)).limit(_EVENTS_BATCH)
    numbers = db.exec(some).all()
    return events.forget(db, col(Event.id).in_(some)) if numbers else 0
