"""Which events are worth a checkpoint, and what it is then said to be made for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlmodel import Session, col, select

from sitrepd.launches.ends import end_told
from sitrepd.sessions.models import Message, SessionRow
from sitrepd.slices import Registry
from sitrepd.storage.base import Event

_OVER = ("done", "stopped", "failed")
# What is told in bursts waits until it has been quiet for a while.
BURSTS = frozenset({"benchmark", "sweep", "directive"})
# Of what happens together, the first of these gives the checkpoint its trigger.
_WEIGHT = ("closed", "failed", "lost", "ready", "exited", "empty message", "sweep", "benchmark", "directive")
_CAUSES = 20


@dataclass(frozen=True)
class Trigger:
    """Why a checkpoint of a session is made: one word, and what caused it."""

    name: str
    causes: tuple[str, ...] = ()

    @property
    def cause(self) -> str | None:
        told = self.causes if len(self.causes) <= _CAUSES else (*self.causes[:_CAUSES], "…")
        return ", ".join(told) or None

    def __or__(self, other: Trigger) -> Trigger:
        """Both at once: the weightier word, and all causes."""
        name = min(self.name, other.name, key=_weight)
        return Trigger(name, tuple(dict.fromkeys((*self.causes, *other.causes))))


def _weight(name: str) -> int:
    return _WEIGHT.index(name) if name in _WEIGHT else len(_WEIGHT)


@dataclass(frozen=True)
class Happened:
    """An event of the log; `text` is that of a message that counts, `told` says that a fact counts, by its row."""

    kind: str
    subject: str
    session_id: int | None
    data: Mapping[str, Any]
    text: str | None = None
    closed: bool = False
    told: bool = False


def triggers(found: Iterable[Happened]) -> dict[int, Trigger]:
    """What of these events is worth a checkpoint, by session, with all causes."""
    by_session: dict[int, Trigger] = {}
    for one in found:
        trigger = trigger_of(one)
        if trigger is not None and one.session_id is not None:
            before = by_session.get(one.session_id)
            by_session[one.session_id] = before | trigger if before else trigger
    return by_session


def trigger_of(one: Happened) -> Trigger | None:
    """What an event is worth."""
    state = end_told(one.kind, one.data)
    if state is not None:
        return Trigger(state, (f"{one.subject} {state}",))
    if one.closed:
        return Trigger("closed", (f"{one.subject} closed",))
    if one.text is not None and not one.text.strip():
        return Trigger("empty message")
    if one.told:
        name = one.kind.partition(".")[0]
        return Trigger(name, (f"{one.subject} {_WORDS[name]}",))
    return None


_WORDS = {"benchmark": "measured", "sweep": "over", "directive": "told"}


# --- what the rows say -------------------------------------------------------------------------------------------


def happened(db: Session, registry: Registry, found: Sequence[Event]) -> list[Happened]:
    """Events with what must be read from rows: texts of messages, sessions that are closed, facts that count."""
    texts = _texts(db, [event.subject for event in found if event.kind == "message.created"])
    changed = {event.subject for event in found if _may_close(event)}
    query = select(SessionRow.id).where(col(SessionRow.ended_at).is_not(None))
    closed = {f"S{number}" for number in db.exec(query).all()} & changed if changed else set()
    told = _counting(db, registry, found)
    return [
        Happened(
            event.kind,
            event.subject,
            int(event.subject[1:]) if _may_close(event) else event.session_id,
            event.data or {},
            texts.get(event.subject) if event.kind == "message.created" else None,
            _may_close(event) and event.subject in closed,
            _may_count(event) and event.subject in told,
        )
        for event in found
    ]


def _may_close(event: Event) -> bool:
    return event.kind == "session.changed" and "ended_at" in (event.data or {}).get("fields", ())


def _may_count(event: Event) -> bool:
    if event.kind in ("sweep.changed", "directive.changed"):
        fields = (event.data or {}).get("fields", ())
        return "state" in fields if event.kind == "sweep.changed" else "proposed" in fields
    return event.kind in ("benchmark.created", "sweep.created", "directive.created")


def _counting(db: Session, registry: Registry, found: Sequence[Event]) -> set[str]:
    """Benchmarks that were told, sweeps that are over, directives that hold; imported ones are history."""
    subjects: dict[str, set[int]] = {}
    for event in found:
        if _may_count(event) and event.subject[1:].isdigit():
            subjects.setdefault(event.kind.partition(".")[0], set()).add(int(event.subject[1:]))
    counting: set[str] = set()
    for word, numbers in subjects.items():
        noun = registry.by_word[word]
        table: Any = noun.table
        conditions = [col(table.id).in_(numbers), col(table.imported_from).is_(None)]
        if word == "sweep":
            conditions.append(col(table.state).in_(_OVER))
        if word == "directive":
            conditions += [col(table.active).is_(True), col(table.proposed).is_not(True)]
        counting |= {noun.public_id(number) for number in db.exec(select(table.id).where(*conditions)).all()}
    return counting


def _texts(db: Session, subjects: Sequence[str]) -> dict[str, str]:
    """Empty messages of the user, and what the assistant said; imported ones are history."""
    numbers = [int(subject) for subject in subjects if subject.isdigit()]
    if not numbers:
        return {}
    told = select(Message.id, Message.role, Message.text).where(col(Message.id).in_(numbers))
    return {
        str(number): text
        for number, role, text in db.exec(told.where(col(Message.imported_from).is_(None))).all()
        if (role == "assistant" and text.strip()) or (role == "user" and not text.strip())
    }
