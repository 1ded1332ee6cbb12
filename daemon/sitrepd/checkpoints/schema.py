"""The published shape of a checkpoint as JSON, as JSON Schema; it is what tests hold the real ones against."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from sitrepd.sections import Document, Section

ID = "https://sitrepd.invalid/schemas/checkpoint-1.json"
_ID = r"^(?:[A-Z][1-9]\d*|)$"


class Item(BaseModel):
    """One unit that a budget keeps or leaves out; its other fields are those of its kind."""

    model_config = ConfigDict(extra="allow")

    ids: list[str] = Field(description="The facts that it says something of; each can be had by `sitrep show ID`.")
    kind: str | None = Field(None, description="What it is, where a section holds several kinds of items.")
    id: str | None = Field(None, description="The fact that it is, with that fact's fields.", pattern=_ID)
    what: str | None = Field(None, description="What it is called where a budget leaves it out; its ids if absent.")
    order: float | None = Field(None, description="Its place among the items of the section; as listed if absent.")
    priority: int | None = Field(None, description="When it gives way to a budget; the section's if absent.")
    pinned: bool | None = Field(None, description="Whether it is; as the section if absent.")
    volatile: bool | None = Field(None, description="True where it makes no new checkpoint when it changes.")
    live: dict[str, Any] | None = Field(None, description="How it was at that moment: progress, time left, a reading.")
    shortened: Literal[True] | None = Field(None, description="There where a budget clipped its words, marked by […].")


class PublishedSection(Section):
    items: list[Item] = Field(default_factory=list, description="Most important first.")  # type: ignore[assignment]


class Checkpoint(Document):
    """A checkpoint as `sitrep checkpoint --json` and `?format=json` give it."""

    model_config = ConfigDict(extra="forbid", title="Sitrep checkpoint")

    version: Literal[1]
    id: str = Field(description="`C15`.", pattern=r"^C[1-9]\d*$")
    at: str = Field(description="When it was made: ISO 8601, UTC.", json_schema_extra={"format": "date-time"})
    trigger: str = Field(description="What it was made for: idle, ready, failed, directive, asked, …")
    cause: str | None = Field(None, description="What caused that: `L1 loading`.")
    sections: list[PublishedSection]  # type: ignore[assignment]
    left_out: list[str] = Field(
        description="Lines that name what a budget left out or shortened, and the call that gives it; empty if nothing."
    )


def schema() -> dict[str, Any]:
    """JSON Schema, draft 2020-12."""
    made = Checkpoint.model_json_schema(mode="validation")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": ID} | made
