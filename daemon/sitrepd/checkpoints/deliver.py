"""Handing a checkpoint over: a live delta in front of the stored text, and a row that remembers it."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlmodel import Session, col, select

from sitrepd.checkpoints import changes, words
from sitrepd.checkpoints.budget import Part
from sitrepd.checkpoints.collect import collect
from sitrepd.checkpoints.models import Checkpoint, Delivery
from sitrepd.checkpoints.quote import one_line
from sitrepd.checkpoints.render import short, to_markdown
from sitrepd.checkpoints.service import checkpoints
from sitrepd.clock import iso, utc_now
from sitrepd.runtime import Runtime
from sitrepd.storage import events, ids

_NAMED = re.compile(r"\bC([1-9]\d{0,17})\b")
_IDS = 40
_LEAST = 1000
# Of the budget, at most this part goes to what is new; the rest is for the stored text.
_DELTA_SHARE = 0.4
_LOADING = ("starting", "loading", "capturing", "warming")


@dataclass(frozen=True)
class Handover:
    """What was printed, of which checkpoint, as which delivery."""

    text: str
    checkpoint: str
    delivery: int


async def resume(
    runtime: Runtime,
    session_id: int,
    to: str,
    budget: int | None,
    most_bytes: int | None = None,
    conversation: str | None = None,
) -> Handover:
    """The latest checkpoint for an agent: what is new since, then the stored text, within the budget as a whole."""
    made = checkpoints(runtime)
    row = await made.latest(session_id)
    number = await runtime.store.write_async(lambda db: ids.allocate(db, "delivery"))
    text = await asyncio.to_thread(_fitting, runtime, row, number, budget, most_bytes)
    await runtime.store.write_async(lambda db: _remember(db, row, number, to, budget, text, conversation))
    return Handover(text, ids.public_id("C", row.id or 0), number)


def _fitting(runtime: Runtime, row: Checkpoint, delivery: int, budget: int | None, most_bytes: int | None) -> str:
    """Within so many bytes of UTF-8 too, which some clients count, as far as the least budget allows."""
    text = _text(runtime, row, delivery, budget)
    while most_bytes is not None and (size := len(text.encode())) > most_bytes:
        smaller = max(_LEAST, min(len(text) * most_bytes // size, len(text) - 100))
        if budget is not None and smaller >= budget:
            break
        budget = smaller
        text = _text(runtime, row, delivery, budget)
    return text


def _text(runtime: Runtime, row: Checkpoint, delivery: int, budget: int | None) -> str:
    templates = checkpoints(runtime).templates
    now = utc_now()
    since = changes.Since(ids.public_id("C", row.id or 0), row.at, row.event)
    with runtime.store.read() as db:
        found = changes.changes_since(db, row.session_id or 0, row.event)
        new: list[Part] = []
        if found:
            collected = collect(db, runtime.registry, row.session_id or 0, now, runtime.live)
            sections = [section.model_dump() for section in collected.sections]
            new = [templates.typeset(one) for one in _about(sections, found.by_subject.keys())]
        alive = _alive(db, runtime, row.session_id or 0)
    room = None if budget is None else int(budget * _DELTA_SHARE)
    delta = _delta(row, delivery, now, since, found, alive, new, room)
    return delta + "\n" + to_markdown(row.rendered, None if budget is None else budget - len(delta) - 1, templates)


def _about(sections: Sequence[Mapping[str, Any]], subjects: Iterable[str]) -> Iterable[dict[str, Any]]:
    """The sections with only the items that are about these facts, weightiest first, none of them pinned less."""
    wanted = set(subjects)
    for section in sections:
        items = [item for item in section["items"] if wanted.intersection(item.get("ids", ()))]
        if items:
            yield {**section, "items": items, "data": {**section["data"], "earlier": None}}


def _delta(
    row: Checkpoint, delivery: int, now: datetime, since: changes.Since, found: changes.Changes, alive: Sequence[str],
    new: Sequence[Part], room: int | None,
) -> str:  # fmt: skip
    """Line 1, never the same twice; what is alive; what has changed, by ids, and in full as far as there is room."""
    age = words.duration((now - row.at).total_seconds())
    session = row.rendered["session"]
    first = (
        f"Sitrep {since.id} · {session['id']} {short(session['name'])} · handed over {iso(now)} as delivery {delivery}"
        f", {age} after it was written — name {since.id} in your first answer."
    )
    lines = [*(f"- {line}" for line in alive), *_changed(since, found)]
    text = "\n".join([first, "", f"## Since {since.id}", *lines]) + "\n"
    for part in new:
        opening = "\n".join(["", *part.head.split("\n")[1:]]) + "\n" if "\n" in part.head else ""
        for piece in sorted(part.pieces, key=lambda piece: piece.rank):
            if room is None or len(text) + len(opening) + len(piece.text) + 1 <= room:
                text += opening + piece.text + "\n"
                opening = ""
    return text


def _changed(since: changes.Since, found: changes.Changes) -> list[str]:
    if not found:
        return [f"- No fact has changed since {since.id}."]
    lines = []
    for word, listed in (("Added", found.added), ("Changed", found.changed)):
        if listed:
            told = ", ".join(changes.words(one) for one in listed[-_IDS:])
            more = f" and {len(listed) - _IDS} more (`sitrep events`)" if len(listed) > _IDS else ""
            lines.append(f"- {word}: {told}{more}")
    if found.messages:
        lines.append(f"- {found.messages} new message{'s' if found.messages != 1 else ''}")
    return [*lines, "- What follows was true then; where these facts say otherwise, they hold (`sitrep show ID`)."]


def _alive(db: Session, runtime: Runtime, session_id: int) -> list[str]:
    """Each living launch of the session with its progress now."""
    live: Mapping[int, Any] = runtime.live.get("launches") or {}
    if not live:
        return []
    table: Any = runtime.registry.by_word["launch"].table
    query = select(table.id, table.name).where(col(table.id).in_(list(live)), table.session_id == session_id)
    return [
        " ".join(part for part in (f"L{number}", one_line(name) if name else "", _state(live[number])) if part)
        for number, name in db.exec(query.order_by(table.id)).all()
    ]


def _state(launch: Any) -> str:
    told = dataclasses.asdict(launch)
    told["phase"] = told.get("title") or told.get("phase")
    if launch.state not in _LOADING:
        return f"is {launch.state} now"
    parts = [words.progress(told), words.time_left(told)]
    return f"is {launch.state} now: {', '.join(part for part in parts if part)}"


def _remember(
    db: Session, row: Checkpoint, number: int, to: str, budget: int | None, text: str, conversation: str | None
) -> None:
    now = utc_now()
    db.add(
        Delivery(
            id=number, session_id=row.session_id, at=now, observed_at=now, provenance="observed", checkpoint_id=row.id,
            to=to, budget=budget, bytes=len(text.encode()), conversation=conversation,
        )
    )  # fmt: skip
    checkpoint = ids.public_id("C", row.id or 0)
    events.record(db, "delivery.created", str(number), row.session_id, to=to, checkpoint=checkpoint)


# --- echoes ------------------------------------------------------------------------------------------------------


def named(text: str) -> list[int]:
    """Numbers of the checkpoints that a text names."""
    return [int(number) for number in dict.fromkeys(_NAMED.findall(text))]


async def echo(runtime: Runtime, session_id: int, text: str) -> list[int]:
    """Mark the deliveries whose checkpoint the text names; their numbers, also of those that were marked before."""
    numbers = named(text)
    if not numbers:
        return []
    query = select(Delivery).where(Delivery.session_id == session_id, col(Delivery.checkpoint_id).in_(numbers))

    def job(db: Session) -> list[int]:
        rows = db.exec(query.order_by(col(Delivery.id))).all()
        for row in rows:
            if not row.echoed:
                row.echoed, row.echoed_at = True, utc_now()
                db.add(row)
                events.record(db, "delivery.changed", str(row.id), session_id, fields=["echoed"])
        return [row.id or 0 for row in rows]

    return await runtime.store.write_async(job)
