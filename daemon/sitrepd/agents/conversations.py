"""Which session a client's conversation belongs to, and where it was last seen."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlmodel import Session

from sitrepd.agents.payload import Payload
from sitrepd.clock import utc_now
from sitrepd.sessions import current
from sitrepd.sessions.models import Conversation
from sitrepd.storage import events


@dataclass(frozen=True)
class Place:
    """Where a hook was called, by its headers and its payload."""

    hint: current.Hint
    client: str
    transcript: str | None = None

    @property
    def conversation(self) -> str | None:
        return self.hint.conversation


def place_of(payload: Payload, hint: current.Hint) -> Place:
    """What the payload says of conversation and folder comes before the headers, which may be those of a tunnel."""
    conversation, cwd = payload.conversation or hint.conversation, payload.cwd or hint.cwd
    told = replace(hint, conversation=conversation, cwd=cwd)
    return Place(told, payload.client, current.place(hint.host, payload.text("transcript_path")))


def session_of(db: Session, place: Place) -> int:
    """The session that is meant; of a conversation that is known, its own, until its folder is tied anew."""
    if place.hint.session is None and (tied := _tied_anew(db, place.hint)) is not None:
        return tied
    return current.resolve(db, place.hint)


def is_known(db: Session, place: Place, session_id: int) -> bool:
    """Whether nothing of what the store holds of this conversation would change."""
    row = db.get(Conversation, place.conversation) if place.conversation else None
    return row is not None and _told(place, session_id) == (row.client, row.session_id, row.cwd, row.transcript)


def remember(db: Session, place: Place, session_id: int, ended: bool = False) -> None:
    """Bind the conversation to its session, so that it is found from another folder or machine as well."""
    if not place.conversation:
        return
    row = db.get(Conversation, place.conversation)
    if row is None:
        row = Conversation(id=place.conversation, session_id=session_id)
        events.record(db, "conversation.begun", place.conversation, session_id, client=place.client)
    elif row.session_id != session_id:
        row.at = utc_now()
    row.client, row.session_id = place.client, session_id
    row.cwd = place.hint.folder or row.cwd
    row.transcript = place.transcript or row.transcript
    row.seen_at = utc_now()
    row.ended_at = row.seen_at if ended else None
    db.add(row)


def _told(place: Place, session_id: int) -> tuple[str, int, str | None, str | None]:
    return place.client, session_id, place.hint.folder, place.transcript


def _tied_anew(db: Session, hint: current.Hint) -> int | None:
    """The session that the folder was tied to after the conversation began."""
    row = db.get(Conversation, hint.conversation) if hint.conversation else None
    tie = current.tie_of(db, hint.folder) if row is not None else None
    if row is None or tie is None or tie.session_id == row.session_id:
        return None
    return tie.session_id if tie.at > row.at else None
