"""Messages and commands of stored conversations become rows; those that hooks have told already are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from sqlmodel import Session, col, select

from sitrepd import facts, redact
from sitrepd.agents import directives
from sitrepd.agents.messages import next_number, propose
from sitrepd.agents.models import Command
from sitrepd.backfill.models import ToldCommand, ToldMessage
from sitrepd.facts import Noun, Scope
from sitrepd.sessions.models import Message
from sitrepd.slices import Registry
from sitrepd.storage import events, ids

# A hook tells of a command when it ends, a transcript when it began.
_NEAR = timedelta(minutes=2)


def scope_of(registry: Registry, session_id: int, path: str) -> Scope:
    path = redact.redact_text(path)
    return Scope(registry, f"imported from {path}"[:500], session_id, imported_from=path)


class Conversations:
    """Works in the caller's transaction, for one session."""

    def __init__(self, db: Session, registry: Registry, session_id: int, host: int | None) -> None:
        self._db, self._registry, self._session_id, self._host = db, registry, session_id, host

    def make_message(self, noun: Noun, told: ToldMessage) -> tuple[Any, bool]:
        """Numbered on from what the session has; wishes in it are proposed as a hook would."""
        known = self._message_heard(told)
        if known is not None:
            return known, False
        scope = scope_of(self._registry, self._session_id, told.path)
        number = next_number(self._db, self._session_id)
        row = facts.tell(self._db, noun, told.fact.model_copy(update={"number": number}), scope)
        if not told.fact.synthetic:
            said = replace(scope, now=told.fact.at or scope.now)
            propose(self._db, said, directives.proposed(told.fact.text), number)
        return row, True

    def _message_heard(self, told: ToldMessage) -> Message | None:
        at = told.fact.at
        if at is None:
            return None
        query = select(Message).where(
            col(Message.session_id) == self._session_id, col(Message.imported_from).is_(None),
            col(Message.at) >= at - _NEAR, col(Message.at) <= at + _NEAR,
        )  # fmt: skip
        text = redact.redact_text(told.fact.text).strip()
        return next((row for row in self._db.exec(query).all() if row.text.strip() == text), None)

    def change_nothing(self, noun: Noun, row: Any, told: ToldMessage) -> None:
        """What was said does not change."""

    def make_command(self, runs: Sequence[int], noun: Noun, told: ToldCommand) -> tuple[Any, bool]:
        known = self._command_heard(told)
        if known is not None:
            return known, False
        named = [ids.public_id("B", number) for number in runs]
        scope = scope_of(self._registry, self._session_id, told.path)
        row = facts.tell(self._db, noun, told.fact.model_copy(update={"results": named}), scope)
        row.host_id = row.host_id or self._host
        self._db.add(row)
        return row, True

    def _command_heard(self, told: ToldCommand) -> Command | None:
        at = told.fact.at
        if at is None:
            return None
        took = timedelta(milliseconds=told.fact.duration_ms or 0)
        query = select(Command).where(
            col(Command.session_id) == self._session_id, col(Command.imported_from).is_(None),
            col(Command.command) == redact.redact_command(told.fact.command),
            col(Command.at) >= at - _NEAR, col(Command.at) <= at + took + _NEAR,
        )  # fmt: skip
        return self._db.exec(query).first()

    def change_command(self, noun: Noun, row: Command, told: ToldCommand) -> None:
        """One in the background has ended since it was read last."""
        if row.exit_code is None and told.fact.exit_code is not None:
            row.exit_code, row.output = told.fact.exit_code, row.output or told.fact.output
            self._db.add(row)
            subject = noun.public_id(row.id)
            events.record(self._db, "command.changed", subject, row.session_id, fields=["exit_code"])
