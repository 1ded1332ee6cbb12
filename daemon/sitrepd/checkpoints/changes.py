"""What has changed since a checkpoint, by ids, and since when nobody has told anything: both from the event log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam
from sqlmodel import Session, col, select

from sitrepd.reporting import when
from sitrepd.sections import Section, of_now
from sitrepd.storage.base import Event
from sitrepd.storage.events import last_forgotten

# Not facts of the work: what is written about it, and how it is found.
_ASIDE = ("checkpoint.", "delivery.", "folder.", "conversation.", "command.", "compaction.", "host.sampled")
_MOST = 2000


@dataclass(frozen=True)
class Since:
    """The checkpoint to compare with: its public id, when it was made, and the last event it knew of."""

    id: str
    at: datetime
    event: int


@dataclass
class Change:
    """All that happened to one fact: whether it is new, which fields changed, and the state it is in now."""

    subject: str
    added: bool = False
    fields: list[str] = field(default_factory=list)
    state: str | None = None


@dataclass
class Changes:
    by_subject: dict[str, Change] = field(default_factory=dict)
    messages: int = 0
    cut: bool = False
    forgotten: bool = False
    """Whether the log is not kept any more as far back as was asked: there may be more than is told."""

    @property
    def added(self) -> list[Change]:
        return [change for change in self.by_subject.values() if change.added]

    @property
    def changed(self) -> list[Change]:
        return [change for change in self.by_subject.values() if not change.added]

    def __bool__(self) -> bool:
        return bool(self.by_subject) or self.messages > 0


def changes_since(db: Session, session_id: int, event: int) -> Changes:
    """What happened to the session's facts after that event, oldest first."""
    found = _newer(db, col(Event.session_id) == session_id, event)
    # The session itself belongs to none. Each query follows an index; one for both would read all events.
    found = sorted((*found, *_newer(db, _itself(session_id), event)))
    changes = Changes(cut=len(found) > _MOST, forgotten=last_forgotten(db) > event)
    for _, kind, subject, data in found[:_MOST]:
        if not kind.startswith(_ASIDE):
            _note(changes, kind, subject, data or {})
    return changes


def _newer(db: Session, condition: Any, event: int) -> Sequence[Any]:
    query: Any = select(Event.id, Event.kind, Event.subject, Event.data).where(condition, col(Event.id) > event)
    return list(db.exec(query.order_by(col(Event.id)).limit(_MOST + 1)).all())


def _itself(session_id: int) -> Any:
    return (col(Event.subject) == f"S{session_id}") & col(Event.session_id).is_(None)


def _note(changes: Changes, kind: str, subject: str, data: dict[str, Any]) -> None:
    if kind.startswith("message."):
        changes.messages += kind == "message.created"
        return
    change = changes.by_subject.setdefault(subject, Change(subject))
    change.added = change.added or kind.endswith((".created", ".imported"))
    if isinstance(data.get("state"), str):
        change.state = data["state"]
    change.fields += [name for name in data.get("fields", ()) if name not in change.fields]


def words(change: Change) -> str:
    """`L14 (ready)`, `N1 (state)`, `F9`."""
    told = change.state or (None if change.added else ", ".join(change.fields))
    return f"{change.subject} ({told})" if told else change.subject


def sections(db: Session, session_id: int, since: Since | None) -> list[Section]:
    """Section `changes`, and since when the session has been idle, for `now`."""
    return [*_idle(db, session_id), *_changed(db, session_id, since)]


def _changed(db: Session, session_id: int, since: Since | None) -> list[Section]:
    if since is None:
        return []
    changes = changes_since(db, session_id, since.event)
    items: list[dict[str, Any]] = [
        {"kind": kind, "ids": [one.subject for one in listed], "told": [words(one) for one in listed]}
        for kind, listed in (("added", changes.added), ("changed", changes.changed))
        if listed
    ]
    if changes.messages:
        items.append({"kind": "messages", "ids": [], "count": changes.messages, "what": "new messages"})
    data = {"checkpoint": since.id, "at": when(since.at), "cut": changes.cut}
    title = f"Changed since {since.id}" + (", of which the log is not kept whole" if changes.forgotten else "")
    return [Section(name="changes", title=title, order=170, priority=30, items=items, data=data, more="sitrep events")]


def _idle(db: Session, session_id: int) -> Iterable[Section]:
    moment = last_told(db, session_id)
    if moment is None:
        return
    item: dict[str, Any] = {"kind": "idle", "ids": [], "what": "idle since", "since": when(moment)}
    item |= {"volatile": True, "pinned": False, "priority": 28, "order": 50}
    yield of_now([item])


def last_told(db: Session, session_id: int) -> datetime | None:
    """When the last fact of the session was told; what the daemon observes by itself does not count."""
    bound = {"number": session_id, "subject": f"S{session_id}"}
    return max((moment for latest in _LATEST for moment in db.exec(latest, params=bound).all()), default=None)


def _latest(condition: Any) -> Any:
    kind = col(Event.kind)
    told = [kind != "launch.changed", *(~kind.startswith(prefix) for prefix in _ASIDE)]
    return select(Event.at).where(condition, *told).order_by(col(Event.id).desc()).limit(1)


# Made once: putting them together takes longer than the database does to answer them.
_LATEST = (
    _latest(col(Event.session_id) == bindparam("number")),
    _latest((col(Event.subject) == bindparam("subject")) & col(Event.session_id).is_(None)),
)
