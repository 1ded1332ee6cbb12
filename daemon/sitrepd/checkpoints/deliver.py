"""Handing a checkpoint over: a live delta in front of the stored text, and a row that remembers it."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlmodel import Session, col, select

from sitrepd.checkpoints import changes, echoes, words
from sitrepd.checkpoints.budget import Part
from sitrepd.checkpoints.collect import collect
from sitrepd.checkpoints.models import Channel, Checkpoint, Delivery
from sitrepd.checkpoints.quote import one_line
from sitrepd.checkpoints.render import short, to_markdown
from sitrepd.checkpoints.service import checkpoints
from sitrepd.clock import iso, utc_now
from sitrepd.launches.states import LOADING
from sitrepd.redact import redact_text
from sitrepd.runtime import Runtime
from sitrepd.storage import events, ids

_IDS = 40
_LEAST = 1000
# Of the budget, at most this part goes to what is new; the rest is for the stored text.
_DELTA_SHARE = 0.4
# Only now and then is it looked whether there are too many.
_TIDY_EVERY = 20


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
    channel: Channel = "http",
) -> Handover:
    """The latest checkpoint for an agent: what is new since, then the stored text, within the budget as a whole."""
    made = checkpoints(runtime)
    row = await made.latest(session_id)
    number = await runtime.store.write_async(lambda db: ids.allocate(db, "delivery"))
    text = await asyncio.to_thread(_fitting, runtime, row, number, budget, most_bytes)
    now = utc_now()
    delivery = Delivery(
        id=number, session_id=row.session_id, at=now, observed_at=now, provenance="observed", checkpoint_id=row.id,
        to=redact_text(to), budget=budget, bytes=len(text.encode()), conversation=conversation, channel=channel,
    )  # fmt: skip
    await runtime.store.write_async(lambda db: _remember(db, delivery, runtime.settings.deliveries_keep))
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
            sections = [dict(section) for section in collected.sections]
            new = [templates.typeset(one) for one in _about(sections, found.by_subject.keys())]
        alive = _alive(db, runtime, row.session_id or 0)
        unproved = echoes.unproved(echoes.lately(db, row.session_id or 0, now), now)
    if unproved is not None:
        alive.append(unproved)
    room = None if budget is None else int(budget * _DELTA_SHARE)
    delta = _delta(row, delivery, now, since, found, alive, new, room)
    return delta + "\n" + to_markdown(row.rendered, None if budget is None else budget - len(delta) - 1, templates)


def _about(sections: Sequence[Mapping[str, Any]], subjects: Iterable[str]) -> Iterable[dict[str, Any]]:
    """The sections with only the items that are about these facts, weightiest first, none of them pinned less.

    A failed launch, which stands in two of them for who reads a whole checkpoint, is told once.
    """
    wanted, failures = set(subjects), set[str]()
    for section in sections:
        items = [item for item in section["items"] if wanted.intersection(item.get("ids", ()))]
        if section["name"] == "launches":
            items = [item for item in items if not failures.issuperset(item["ids"])]
        failures |= {name for item in items if item.get("kind") == "failure" for name in item["ids"]}
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
    if not found and not found.forgotten:
        return [f"- No fact has changed since {since.id}."]
    lines = []
    if found.forgotten:
        lines.append(
            f"- The log of changes does not reach back to {since.id}: more may have changed than is told here."
        )
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
    if launch.state not in LOADING:
        return f"is {launch.state} now"
    parts = [words.progress(told), words.time_left(told)]
    return f"is {launch.state} now: {', '.join(part for part in parts if part)}"


def _remember(db: Session, row: Delivery, keep: int) -> None:
    """A row for each hand-over; who polls pushes out the oldest ones."""
    if row.id is not None and row.id % _TIDY_EVERY == 0:
        echoes.forget(db, row.session_id, keep)
    db.add(row)
    checkpoint = ids.public_id("C", row.checkpoint_id or 0)
    told = {"to": row.to, "checkpoint": checkpoint, "channel": row.channel}
    events.record(db, "delivery.created", str(row.id), row.session_id, **told)
