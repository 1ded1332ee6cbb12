"""What search, timeline, comparison and retention answer; the tables behind search are those of storage."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from sitrepd.storage.search import SearchEntry, SearchState

TABLES = (SearchEntry, SearchState)


class FoundFact(BaseModel):
    """A fact that holds the words; each stands between `**` in `snippet`."""

    id: str
    type: str
    session: str | None = None
    at: datetime
    state: str | None = Field(None, description="What it is and whether it still holds: rejected, superseded, done, …")
    name: str | None = None
    snippet: str


class SearchPage(BaseModel):
    """Best first. `count` is that of all, or at least so many where `at_least` is true."""

    data: list[FoundFact]
    count: int
    at_least: bool = False
    matched: Literal["all", "any"] = Field("all", description="`any` where no fact holds all words.")
    next_cursor: str | None = None


class Moment(BaseModel):
    """One thing that happened."""

    at: datetime
    id: str
    type: str
    what: str = Field(description="told, started, ready, failed, changed, handed over, …")
    text: str | None = None
    session: str | None = None
    fields: dict[str, Any] | None = Field(None, description="Of a change: what was and what is, by field.")


class TimelinePage(BaseModel):
    data: list[Moment]
    next_cursor: str | None = None


class ComparedFact(BaseModel):
    id: str
    type: str
    text: str | None = None
    state: str | None = None


class FieldChange(BaseModel):
    """A field of a fact, as it was and as it became; null where there was nothing."""

    name: str
    old: Any = None
    new: Any = None
    recorded: bool = Field(True, description="False where only that it changed is known.")


class ChangedFact(ComparedFact):
    fields: list[FieldChange]


class GoneFact(ComparedFact):
    why: str = Field(description="deleted, done, dropped, refuted, superseded, taken back, …")


class Comparison(BaseModel):
    """What differs between two checkpoints, from the older to the newer."""

    older: str
    newer: str
    older_at: datetime
    newer_at: datetime
    added: list[ComparedFact]
    changed: list[ChangedFact]
    gone: list[GoneFact]
    messages: int = Field(0, description="Messages that were told in between.")
    basis: Literal["events", "sections"] = Field(
        description="`events`: all that was stored in between. `sections`: only what the two texts hold, for "
        "checkpoints of different sessions or stores."
    )


class Plan(BaseModel):
    """What retention drops, and what it keeps although it is old enough to be dropped."""

    dry_run: bool
    checkpoints: list[str]
    kept: dict[str, str] = Field(description="Checkpoints that are old enough, and why they are kept.")
    deliveries: int
    events: int
