"""Making checkpoints: collected, numbered and stored where a fact has changed, and written to files."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from sqlmodel import Session, col, select

from sitrepd.checkpoints.changes import Since
from sitrepd.checkpoints.collect import Collected, collect
from sitrepd.checkpoints.files import write_files
from sitrepd.checkpoints.models import Checkpoint
from sitrepd.checkpoints.render import render
from sitrepd.clock import iso, utc_now
from sitrepd.errors import InvalidFact, UnknownId
from sitrepd.redact import redact_text
from sitrepd.runtime import Runtime
from sitrepd.sections import Document
from sitrepd.storage import events, ids

if TYPE_CHECKING:
    from sitrepd.checkpoints.templates import Templates

log = logging.getLogger(__name__)
VERSION = 1


@dataclass(frozen=True)
class Made:
    """A checkpoint, and whether it is new or the latest one again since no fact has changed."""

    checkpoint: Checkpoint
    new: bool


Later = Callable[[Coroutine[Any, Any, None]], None]


@dataclass(frozen=True)
class _Previous:
    """What a new checkpoint is compared with."""

    number: int
    digest: str
    since: Since


class Checkpoints:
    """The checkpoints of a daemon; one is made at a time."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._making = asyncio.Lock()
        self._writing = defaultdict[int, asyncio.Lock](asyncio.Lock)
        self._written_last: dict[int, int] = {}

    @cached_property
    def templates(self) -> Templates:
        from sitrepd.checkpoints.templates import Templates

        settings = self._runtime.settings
        return Templates(settings.templates_dir, settings.data_dir / "cache" / "templates")

    async def make(
        self, session_id: int, trigger: str, cause: str | None = None, later: Later | None = None
    ) -> Made:  # fmt: skip
        """A checkpoint of the session as it is now; the latest one again where no fact has changed since.

        It is stored when this returns; its files are then written too, or by `later` where somebody waits.
        """
        trigger, cause = redact_text(trigger), redact_text(cause) if cause else cause
        async with self._making:
            collected, previous = await asyncio.to_thread(self._collect, session_id)
            if previous is not None and previous.digest == collected.digest:
                if trigger != "asked":
                    await self._runtime.store.write_async(lambda db: _keep(db, previous, session_id, trigger, cause))
                return Made(await asyncio.to_thread(self.stored, previous.number), new=False)
            number = await self._runtime.store.write_async(lambda db: ids.allocate(db, "checkpoint"))
            row = await asyncio.to_thread(self._written, number, session_id, collected, trigger, cause)
            await self._runtime.store.write_async(lambda db: _store(db, row))
        writing = self.write_files(session_id, row)
        if later is None:
            await writing
        else:
            later(writing)
        return Made(row, new=True)

    async def write_files(self, session_id: int, row: Checkpoint) -> None:
        """Rewrite the files that hold the latest checkpoint of the session; one that is older than they are is not."""
        number = row.id or 0
        async with self._writing[session_id]:
            if number >= self._written_last.get(session_id, 0):
                self._written_last[session_id] = number
                await asyncio.to_thread(write_files, self._runtime, session_id, row.markdown, row.rendered)

    async def latest(self, session_id: int) -> Checkpoint:
        """The latest checkpoint; the first one is made where there is none."""
        number = await asyncio.to_thread(self.latest_number, session_id)
        if number is None:
            return (await self.make(session_id, "asked")).checkpoint
        return await asyncio.to_thread(self.stored, number)

    def latest_number(self, session_id: int) -> int | None:
        with self._runtime.store.read() as db:
            return latest_number(db, session_id)

    def stored(self, number: int) -> Checkpoint:
        with self._runtime.store.read() as db:
            row = db.get(Checkpoint, number)
        if row is None:
            raise UnknownId(f"There is no checkpoint C{number}. List them with `sitrep checkpoint list`.")
        return row

    def text(self, row: Checkpoint, form: str, budget: int | None) -> str:
        """A stored checkpoint in a format and size; the bytes that were stored where these are asked for."""
        if form == "md" and row.markdown and budget == self._runtime.settings.checkpoint_budget:
            return row.markdown
        return render(_known(row), form, budget, self.templates)

    def try_out(self, session_id: int) -> None:
        """Collect and write a checkpoint that nobody gets: the next one then finds its templates and most texts."""
        collected, _ = self._collect(session_id)
        self._written(0, session_id, collected, "asked", None)

    def _collect(self, session_id: int) -> tuple[Collected, _Previous | None]:
        with self._runtime.store.read() as db:
            previous = _previous(db, session_id)
            since = previous.since if previous else None
            return collect(db, self._runtime.registry, session_id, utc_now(), self._runtime.live, since), previous

    def _written(
        self, number: int, session_id: int, collected: Collected, trigger: str, cause: str | None
    ) -> Checkpoint:
        now = utc_now()
        rendered = model(number, iso(now), collected, trigger, cause)
        text = render(rendered, "md", self._runtime.settings.checkpoint_budget, self.templates)
        return Checkpoint(
            id=number,
            session_id=session_id,
            at=now,
            observed_at=now,
            provenance="observed",
            number=number,
            trigger=trigger,
            rendered=rendered,
            markdown=text,
            digest=collected.digest,
            event=collected.event,
        )


def checkpoints(runtime: Runtime) -> Checkpoints:
    """The one of this daemon."""
    found = runtime.live.get("checkpoints")
    if not isinstance(found, Checkpoints):
        found = runtime.live["checkpoints"] = Checkpoints(runtime)
    return found


async def make(runtime: Runtime, session_id: int, trigger: str, cause: str | None = None) -> Checkpoint:
    """A checkpoint of the session as it is now; the latest one again where no fact has changed since."""
    return (await checkpoints(runtime).make(session_id, trigger, cause)).checkpoint


def model(number: int, at: str, collected: Collected, trigger: str, cause: str | None) -> dict[str, Any]:
    """The section model with the identity of the checkpoint: what is stored, and what every format is made from."""
    return {
        "version": VERSION,
        "id": ids.public_id("C", number),
        "session": {"id": collected.session, "name": collected.name},
        "at": at,
        "trigger": trigger,
        "cause": cause,
        "sections": [dict(section) for section in collected.sections],
    }


def _known(row: Checkpoint) -> Mapping[str, Any]:
    """The stored model; one that came from elsewhere may be anything."""
    if row.imported_from is None:
        return row.rendered
    try:
        return Document.model_validate(row.rendered).model_dump()
    except ValidationError as error:
        place = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise InvalidFact(
            f"C{row.id} was imported from {row.imported_from} and is no checkpoint of ours (see {place}); "
            f"GET /api/v1/checkpoints/C{row.id} gives it as it was told."
        ) from error


def find_checkpoint(db: Session, text: str) -> Checkpoint:
    """By its id or by the name that it was given; UnknownId where there is none."""
    parsed = ids.parse_id(text)
    if parsed is not None and parsed[0] == "C":
        row = db.get(Checkpoint, parsed[1])
    else:
        row = db.exec(
            select(Checkpoint).where(Checkpoint.name == text.strip()).order_by(col(Checkpoint.id).desc())
        ).first()
    if row is None:
        raise UnknownId(
            f"There is no checkpoint {text!r}, neither by id nor by name. List them: `sitrep checkpoint list`."
        )
    return row


def latest_number(db: Session, session_id: int) -> int | None:
    """The latest checkpoint that was made here; imported ones are history."""
    query = select(Checkpoint.id).where(Checkpoint.session_id == session_id, col(Checkpoint.imported_from).is_(None))
    return db.exec(query.order_by(col(Checkpoint.id).desc()).limit(1)).first()


def _previous(db: Session, session_id: int) -> _Previous | None:
    number = latest_number(db, session_id)
    if number is None:
        return None
    query = select(Checkpoint.digest, Checkpoint.at, Checkpoint.event).where(Checkpoint.id == number)
    digest, at, event = db.exec(query).one()
    return _Previous(number, digest, Since(ids.public_id("C", number), at, event))


def _keep(db: Session, previous: _Previous, session_id: int, trigger: str, cause: str | None) -> None:
    """Remember that there was a reason for a checkpoint, though no fact had changed."""
    events.record(db, "checkpoint.kept", previous.since.id, session_id, trigger=trigger, cause=cause)


def _store(db: Session, row: Checkpoint) -> None:
    db.add(row)
    events.record(
        db, "checkpoint.created", ids.public_id("C", row.id or 0), row.session_id,
        trigger=row.trigger, cause=row.rendered["cause"],
    )  # fmt: skip
