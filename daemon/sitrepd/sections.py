"""The section model: a checkpoint as data, from which every format is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from sqlmodel import Session

    from sitrepd.slices import Registry


class Section(BaseModel):
    """One part of a checkpoint; `templates/checkpoint/<name>.md.j2` turns it into Markdown.

    `items` are the units that a budget keeps or leaves out whole, most important first; each carries `ids`.
    """

    model_config = ConfigDict(extra="forbid")

    name: str
    title: str
    order: int = Field(description="Its place in the text.")
    priority: int = Field(description="What gives way first when the budget is short: the highest number.")
    pinned: bool = Field(False, description="Shrinks only after everything that is not pinned.")
    items: list[dict[str, Any]] = Field(default_factory=list)
    data: dict[str, Any] = Field(default_factory=dict, description="What it says besides its items.")
    more: str | None = Field(None, description="The call that gives what was left out.")


def of_now(items: list[dict[str, Any]], **data: Any) -> Section:
    """A part of what comes first in every checkpoint: what holds at this moment."""
    return Section(name="now", title="Now", order=10, priority=1, pinned=True, items=items, data=data)


class SessionName(BaseModel):
    id: str
    name: str


class Document(BaseModel):
    """A checkpoint as data: its identity and all its sections."""

    version: int
    id: str
    session: SessionName
    at: str
    trigger: str
    cause: str | None = None
    sections: list[Section]


@dataclass(frozen=True)
class Report:
    """What a slice may look at to say its part: rows, the moment, and what is alive now."""

    db: Session
    registry: Registry
    session_id: int
    session: Any
    now: datetime
    since: datetime | None = None
    live: Mapping[str, Any] = field(default_factory=dict)
