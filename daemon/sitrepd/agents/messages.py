"""Messages of the agent's conversation, word for word, and the wishes that are proposed from them."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sqlmodel import Session, col, func, select

from sitrepd import redact
from sitrepd.agents import directives
from sitrepd.agents.conversations import Place, remember
from sitrepd.agents.prompts import Prompt
from sitrepd.facts import Scope, tell_word
from sitrepd.runtime import Runtime
from sitrepd.sessions.models import Directive, Message

# A longer message is kept in a file of the store; its row has the beginning and says where.
LONGEST = 200_000
_FOLDER = "messages"
Role = Literal["user", "assistant", "system"]


@dataclass(frozen=True)
class Stored:
    """The number that the message got in its session, and the directives that were proposed from it."""

    number: int
    directives: tuple[int, ...] = ()


async def store(runtime: Runtime, session_id: int, place: Place, prompt: Prompt, role: Role = "user") -> Stored:
    """Keep a message; durable when it returns."""
    text, whole = prompt.text, None
    if len(text) > LONGEST:
        whole = await asyncio.to_thread(_write_whole, runtime, text)
        text = f"{text[:LONGEST]}\n[… {len(text) - LONGEST} more characters; all {len(text)} are in {whole}]"
    wishes = directives.proposed(prompt.text) if role == "user" and prompt.kind == "user" else []

    def job(db: Session) -> Stored:
        remember(db, place, session_id)
        scope = Scope(runtime.registry, f"observed:{place.client}", session_id)
        number = next_number(db, session_id)
        told = {"number": number, "role": role, "text": text, "synthetic": prompt.kind == "synthetic"}
        tell_word(db, scope, "message", told)
        return Stored(number, tuple(propose(db, scope, wishes, number)))

    return await runtime.store.write_async(job)


def next_number(db: Session, session_id: int) -> int:
    last = db.exec(select(func.max(Message.number)).where(Message.session_id == session_id)).one()
    return int(last or 0) + 1


def propose(db: Session, scope: Scope, wishes: list[str], number: int) -> list[int]:
    """New wishes alone: one that was said before, confirmed or taken back, is not proposed again."""
    if not wishes:
        return []
    query = select(Directive.text).where(col(Directive.session_id) == scope.session_id)
    known = {directives.key(text) for text in db.exec(query).all()}
    new = []
    for wish in wishes:
        if (key := directives.key(wish)) not in known:
            known.add(key)
            new.append(tell_word(db, scope, "directive", {"text": wish, "message": number, "proposed": True}).id)
    return new


def _write_whole(runtime: Runtime, text: str) -> Path:
    """All of a long message, secrets replaced, in a file of the store that is not written again."""
    folder = runtime.settings.data_dir / _FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    kept = redact.redact_text(text).encode("utf-8", "replace")
    number = 1 + sum(1 for _ in folder.iterdir())
    while True:
        path = folder / f"{number}.txt"
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            number += 1
            continue
        with open(descriptor, "wb") as file:
            file.write(kept)
            file.flush()
            os.fsync(file.fileno())
        return path
