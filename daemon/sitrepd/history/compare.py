"""Two checkpoints compared by facts: what was added, what changed and how, what no longer holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlmodel import Session, col, select

from sitrepd.checkpoints.models import Checkpoint
from sitrepd.history.index import number_of
from sitrepd.history.models import ChangedFact, ComparedFact, Comparison, FieldChange, GoneFact
from sitrepd.history.words import called, short
from sitrepd.slices import Registry
from sitrepd.storage import ids
from sitrepd.storage.base import Event
from sitrepd.storage.events import last_forgotten

# Not facts of the work: what is written about it, and how it is found.
_ASIDE = ("checkpoint", "delivery", "folder", "conversation")
# A fact with one of these values holds no more.
_OVER: dict[str, tuple[Any, ...]] = {
    "status": ("refuted", "superseded"),
    "state": ("done", "dropped", "failed", "exited", "lost"),
    "active": (False,),
    "comparable": (False,),
}
_SAID = {"active": "taken back", "comparable": "not comparable"}
_PASSING = ("id", "ids", "kind", "what", "live", "volatile", "age", "since", "priority", "pinned", "command_in")


@dataclass
class _Fate:
    """All that happened to one fact between two events."""

    added: bool = False
    deleted: bool = False
    fields: dict[str, FieldChange] = field(default_factory=dict)


def compare(db: Session, registry: Registry, one: Checkpoint, other: Checkpoint) -> Comparison:
    """From the older to the newer, whichever is named first."""
    older, newer = sorted((one, other), key=lambda row: (row.at, row.id or 0))
    same = older.session_id == newer.session_id and older.session_id is not None
    here = older.imported_from is None and newer.imported_from is None
    if same and here and not _forgotten(db, older):
        return _by_events(db, registry, older, newer)
    return _by_sections(registry, older, newer)


def _head(older: Checkpoint, newer: Checkpoint) -> dict[str, Any]:
    names = [ids.public_id("C", row.id or 0) for row in (older, newer)]
    return {"older": names[0], "newer": names[1], "older_at": older.at, "newer_at": newer.at}


def _forgotten(db: Session, older: Checkpoint) -> bool:
    """Whether events after the older one were dropped."""
    return older.event < last_forgotten(db)


# --- by what was stored in between -------------------------------------------------------------------------------


def _by_events(db: Session, registry: Registry, older: Checkpoint, newer: Checkpoint) -> Comparison:
    session_id = older.session_id or 0
    fates = _fates(_events(db, session_id, older.event, newer.event))
    messages = sum(fate.added for (word, _), fate in fates.items() if word == "message")
    fates = {key: fate for key, fate in fates.items() if key[0] not in (*_ASIDE, "message")}
    later = _fates(_events(db, session_id, newer.event, None)) if fates else {}
    names = _names(db, registry, fates)
    found = Comparison(**_head(older, newer), added=[], changed=[], gone=[], messages=messages, basis="events")
    for (word, subject), fate in fates.items():
        if fate.added and fate.deleted:
            continue
        text, now = names.get((word, subject), (None, None))
        state = _state_then(later.get((word, subject)), now)
        told: dict[str, Any] = {"id": subject, "type": word, "text": text, "state": state}
        changed = [one for one in fate.fields.values() if not one.recorded or one.old != one.new]
        why = "deleted" if fate.deleted else _over(changed)
        if fate.added:
            found.added.append(ComparedFact(**told))
        elif changed and not fate.deleted:
            found.changed.append(ChangedFact(**told, fields=changed))
        if why and not fate.added:
            found.gone.append(GoneFact(**told, why=why))
    return found


def _events(db: Session, session_id: int, after: int, until: int | None) -> Sequence[Any]:
    """Those of the session's facts and of the session itself, in the order of commit."""
    limits = [col(Event.id) > after, *([col(Event.id) <= until] if until is not None else [])]
    itself = (col(Event.subject) == f"S{session_id}") & col(Event.session_id).is_(None)
    found: list[Any] = []
    for condition in (col(Event.session_id) == session_id, itself):
        query: Any = select(Event.id, Event.kind, Event.subject, Event.data).where(condition, *limits)
        found += db.exec(query).all()
    return sorted(found, key=lambda row: row[0])


def _fates(found: Sequence[Any]) -> dict[tuple[str, str], _Fate]:
    fates: dict[tuple[str, str], _Fate] = {}
    for _, kind, subject, data in found:
        word, _, what = kind.partition(".")
        if word == "session" and what in ("created", "imported"):
            continue
        fate = fates.setdefault((word, subject), _Fate())
        fate.added = fate.added or what == "created"
        fate.deleted = fate.deleted or what == "deleted"
        for one in _changes(data or {}):
            before = fate.fields.get(one.name)
            known = one.recorded and (before is None or before.recorded)
            fate.fields[one.name] = FieldChange(
                name=one.name, old=before.old if before else one.old, new=one.new, recorded=known
            )
    return fates


def _changes(data: Mapping[str, Any]) -> Iterable[FieldChange]:
    """What an event says of fields; of what is observed it says the value alone."""
    noted: Mapping[str, Any] = data.get("changes") or {}
    for name, change in noted.items():
        yield FieldChange(name=name, old=change.get("old"), new=change.get("new"))
    if "changes" not in data:
        yield from (FieldChange(name=name, recorded=False) for name in data.get("fields", ()))
    if "state" in data and "state" not in noted:
        yield FieldChange(name="state", old=data.get("before"), new=data["state"])
    for name in ("failure", "suspect", "session"):
        if name in data:
            yield FieldChange(name=name, new=data[name])


def _names(
    db: Session, registry: Registry, fates: Mapping[tuple[str, str], _Fate]
) -> dict[tuple[str, str], tuple[str, str | None]]:
    by_word: dict[str, dict[int, str]] = {}
    for word, subject in fates:
        noun = registry.by_word.get(word)
        number = number_of(noun, subject) if noun is not None else None
        if number is not None:
            by_word.setdefault(word, {})[number] = subject
    return {
        (word, subjects[number]): told
        for word, subjects in by_word.items()
        for number, told in called(db, registry.by_word[word], subjects).items()
    }


def _state_then(later: _Fate | None, now: str | None) -> str | None:
    """What a fact was at the newer checkpoint: what it is now, with what happened afterwards undone."""
    if later is None or now is None:
        return now
    words = now.split(", ")
    for name in ("status", "state"):
        change = later.fields.get(name)
        if change is not None and change.recorded and change.old is not None:
            new = str(change.new).replace("_", " ")
            words = [str(change.old).replace("_", " ") if word == new else word for word in words]
    return ", ".join(words)


def _over(changed: Sequence[FieldChange]) -> str | None:
    """Why a fact that held before holds no more, if so."""
    for one in changed:
        if one.recorded and one.new in _OVER.get(one.name, ()) and one.old not in _OVER[one.name]:
            return _SAID.get(one.name, str(one.new))
    return None


# --- by what the two texts hold ----------------------------------------------------------------------------------


def _by_sections(registry: Registry, older: Checkpoint, newer: Checkpoint) -> Comparison:
    before, after = _items(older), _items(newer)
    found = Comparison(**_head(older, newer), added=[], changed=[], gone=[], basis="sections")
    for subject, item in after.items():
        told = _told(registry, subject, item)
        if subject not in before:
            found.added.append(ComparedFact(**told))
            continue
        names = dict.fromkeys([*before[subject], *item])
        changed = [
            FieldChange(name=name, old=before[subject].get(name), new=item.get(name))
            for name in names
            if before[subject].get(name) != item.get(name)
        ]
        if changed:
            found.changed.append(ChangedFact(**told, fields=changed))
        why = _over(changed)
        if why:
            found.gone.append(GoneFact(**told, why=why))
    for subject, item in before.items():
        if subject not in after:
            found.gone.append(GoneFact(**_told(registry, subject, item), why="not in the newer one"))
    return found


def _items(row: Checkpoint) -> dict[str, dict[str, Any]]:
    """All that a checkpoint says of each fact, in whichever section, without what changes by itself."""
    found: dict[str, dict[str, Any]] = {}
    for section in row.rendered.get("sections") or ():
        for item in section.get("items") or () if isinstance(section, Mapping) else ():
            subject = _subject(item)
            if subject is not None and not item.get("volatile"):
                told = {name: value for name, value in item.items() if name not in _PASSING}
                found[subject] = told | found.get(subject, {})
    return found


def _subject(item: Any) -> str | None:
    """The fact that an item is about."""
    if not isinstance(item, Mapping):
        return None
    named = item.get("id") or next(iter(item.get("ids") or ()), None)
    return named if isinstance(named, str) else None


def _told(registry: Registry, subject: str, item: Mapping[str, Any]) -> dict[str, Any]:
    texts = (item.get(name) for name in ("title", "name", "text", "label", "goal", "command", "path"))
    text = next((short(one) for one in texts if isinstance(one, str) and one.strip()), None)
    state = item.get("status") or item.get("state")
    noun = registry.by_prefix.get(subject[:1])
    word = noun.word if noun is not None else "fact"
    return {"id": subject, "type": word, "text": text, "state": state if isinstance(state, str) else None}
