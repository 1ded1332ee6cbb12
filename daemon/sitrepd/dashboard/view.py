"""What a part of a page may look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlmodel import Session, col, func, select

from sitrepd import facts
from sitrepd.facts import Noun
from sitrepd.slices import Registry


@dataclass(frozen=True)
class View:
    """Rows of one session (of none, where `session_id` is None), the moment, and what is alive now."""

    db: Session
    registry: Registry
    session_id: int | None
    now: datetime
    live: Mapping[str, Any] = field(default_factory=dict)

    def rows(self, word: str, limit: int = 200, **equal: Any) -> Sequence[Any]:
        """Rows of the session, newest first."""
        table = self.registry.by_word[word].table
        query = select(table).where(*self._mine(table), *(col(getattr(table, k)) == v for k, v in equal.items()))
        return self.db.exec(query.order_by(col(table.id).desc()).limit(limit)).all()

    def count(self, word: str) -> int:
        table = self.registry.by_word[word].table
        return self.db.exec(select(func.count()).select_from(table).where(*self._mine(table))).one()

    def told(self, word: str, limit: int = 200, **equal: Any) -> list[Any]:
        """Facts of the session as the API tells them, newest first."""
        return self.publish(word, self.rows(word, limit, **equal))

    def publish(self, word: str, rows: Sequence[Any]) -> list[Any]:
        return facts.publish(self.db, self.registry, self.noun(word), rows) if rows else []

    def noun(self, word: str) -> Noun:
        return self.registry.by_word[word]

    def alive(self, part: str) -> Mapping[int, Any]:
        """What a slice knows of the present moment, by number."""
        found = self.live.get(part)
        return found if isinstance(found, Mapping) else {}

    def _mine(self, table: type[Any]) -> tuple[Any, ...]:
        owner = col(table.session_id)
        return (owner.is_(None) if self.session_id is None else owner == self.session_id,)
