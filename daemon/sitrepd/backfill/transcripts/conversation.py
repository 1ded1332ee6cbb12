"""One stored conversation, whichever client kept it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sitrepd.agents.commands import Ran
from sitrepd.agents.payload import clean


@dataclass
class Said:
    """A message in the user's name; `synthetic` where the client made it."""

    key: str
    at: datetime
    text: str
    synthetic: bool = False


@dataclass
class Done:
    """A shell command, with what its client knows of how it ended."""

    key: str
    at: datetime
    ran: Ran
    ended_at: datetime


@dataclass
class Conversation:
    """What one file tells of one conversation; a message that was copied into several has the same key in all."""

    client: str
    id: str
    path: str
    folder: str | None = None
    said: list[Said] = field(default_factory=list)
    done: list[Done] = field(default_factory=list)


def instant(told: Any) -> datetime | None:
    """Of ISO 8601 as Claude Code writes it, or of milliseconds as opencode does; None for what is neither."""
    try:
        if isinstance(told, int | float) and not isinstance(told, bool):
            return datetime.fromtimestamp(told / 1000, UTC)
        found = datetime.fromisoformat(told)
    except (TypeError, ValueError, OverflowError, OSError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def texts(content: Any) -> Iterator[str]:
    """The texts of a message's content, which is one text or a list of blocks."""
    if isinstance(content, str):
        yield clean(content)
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str):
            yield clean(block["text"])
