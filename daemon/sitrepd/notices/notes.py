"""Which events are worth a notice, and what it says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlmodel import Session, col, select

from sitrepd.clock import iso, utc_now
from sitrepd.launches.ends import end_told
from sitrepd.notices.clocks import THROTTLED
from sitrepd.notices.models import Kind, Notice
from sitrepd.slices import Registry
from sitrepd.storage import ids
from sitrepd.storage.base import Event

_ENDS: Mapping[str, Kind] = {"ready": "ready", "failed": "failed", "exited": "exited", "lost": "lost"}
_OVER = ("done", "stopped", "failed", "paused")
# What a sweep sees to by itself where it befalls a server of one of its trials.
_SEEN_TO = ("ready", "failed", "exited")


def notices(db: Session, registry: Registry, found: Sequence[Event]) -> Iterator[Notice]:
    """A notice for each of these events that is worth one, with what is known of its subject by now."""
    for event in found:
        data = event.data or {}
        state = end_told(event.kind, data)
        if state is not None:
            yield from _launch(db, registry, event, _ENDS[state])
        elif event.kind == "launch.changed" and data.get("suspect"):
            yield from _launch(db, registry, event, "suspect")
        elif event.kind == "sweep.changed" and "state" in data.get("fields", ()):
            yield from _sweep(db, registry, event)
        elif event.kind == "host.gpu_lost":
            text = f"GPU {data.get('gpu')} {data.get('name') or ''} cannot be reached: {data.get('reason')}"
            yield _notice("gpu_lost", event.subject, None, f"GPU {data.get('gpu')} is lost", text)
        elif event.kind == THROTTLED:
            yield _throttling(event.subject, data.get("gpus") or {})


def _launch(db: Session, registry: Registry, event: Event, kind: Kind) -> Iterator[Notice]:
    row = _row(db, registry, "launch", event.subject)
    if row is None or not row.watched or (kind in _SEEN_TO and _is_of_trial(db, registry, row.id)):
        return
    name = f"{event.subject} {row.name or ''}".strip()
    title = f"{name} is {kind}" if kind != "suspect" else f"{name} may be stuck"
    told = [f"Model {row.model}." if row.model else "", f"Port {row.port}." if row.port else ""]
    if kind == "suspect":
        told.append(str((event.data or {})["suspect"]))
    elif kind != "ready":
        told += [row.failure or "", "" if row.exit_code is None else f"Exit status {row.exit_code}."]
    text = " ".join(part for part in told if part) or title
    yield _notice(kind, event.subject, _session(db, registry, row.session_id), title, text)


def _is_of_trial(db: Session, registry: Registry, launch: int) -> bool:
    """Whether a sweep has started it, whose end is told."""
    trial: Any = registry.by_word["trial"].table
    query = select(trial.id).where((trial.launch_id == launch) | (trial.launch_number == launch))
    return db.exec(query.limit(1)).first() is not None


def _sweep(db: Session, registry: Registry, event: Event) -> Iterator[Notice]:
    row = _row(db, registry, "sweep", event.subject)
    if row is not None and row.state in _OVER:
        title = f"Sweep {event.subject} {row.name or ''}".rstrip() + f" is {row.state}"
        text = f"{title}: {row.why}" if row.why else title
        yield _notice("sweep", event.subject, _session(db, registry, row.session_id), title, text)


def _throttling(host: str, gpus: Mapping[str, str]) -> Notice:
    told = "; ".join(f"{name}: {why}" for name, why in gpus.items())
    return _notice("throttling", host, None, f"{', '.join(gpus)} throttled", told)


def _row(db: Session, registry: Registry, word: str, public_id: str) -> Any:
    parsed = ids.parse_id(public_id)
    return db.get(registry.by_word[word].table, parsed[1]) if parsed else None


def _session(db: Session, registry: Registry, number: int | None) -> str | None:
    if number is None:
        return None
    table: Any = registry.by_word["session"].table
    name = db.exec(select(table.name).where(col(table.id) == number)).first()
    return f"S{number} {name}"


def _notice(kind: Kind, subject: str, session: str | None, title: str, text: str) -> Notice:
    about = f"{title} ({session})" if session else title
    return Notice(kind=kind, subject=subject, session=session, title=about, text=text, at=iso(utc_now()))
