"""Checkpoints, which never change, and their deliveries."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field
from sqlmodel import Field as Column

from sitrepd.shapes import CheckpointRef, Count, FactIn, FactOut, Flag, Name, Shape, example, partial
from sitrepd.storage.base import FactRow, json_field, link, time_field

Channel = Literal["cli", "hook", "mcp", "http"]


class Checkpoint(FactRow, table=True):
    """`rendered` is the section model, `markdown` the stored text, `digest` that of the facts.

    Nothing of it changes but its name, and whether it is pinned: both keep it from being dropped.
    """

    number: int
    trigger: str
    rendered: dict[str, Any] = json_field()
    markdown: str = ""
    digest: str = ""
    event: int = 0
    name: str | None = Column(default=None, index=True)
    pinned: bool | None = None


class CheckpointFields(Shape):
    number: Count = Field(description="Its number; of an imported one, the number it had there.")
    trigger: Name = Field(description="What made it: idle, ready, failed, asked, …")
    rendered: dict[str, Any] = Field(description="The section model.")
    name: Name | None = Field(None, max_length=200, description="A name by which it can be asked for.")
    pinned: Flag | None = Field(None, description="Whether it was marked as one to keep.")


class CheckpointRecord(CheckpointFields, FactIn):
    """A checkpoint of another store, kept as history."""


class CheckpointPublic(CheckpointFields, FactOut):
    markdown: str = ""


class CheckpointSummary(FactOut):
    """A checkpoint in a list, without its text."""

    number: int
    trigger: str
    characters: int
    name: str | None = None
    pinned: bool | None = None


class CheckpointMarks(Shape):
    """What may be changed of a checkpoint."""

    model_config = example({"name": "before FP8", "pinned": True})
    name: Name | None = Field(
        None, max_length=200, description="A name by which it can be asked for; null takes it away."
    )
    pinned: Flag | None = Field(None, description="Keep it whatever happens; false no longer.")


class Delivery(FactRow, table=True):
    checkpoint_id: int | None = link("checkpoint")
    to: str
    budget: int | None = None
    bytes: int | None = None
    echoed: bool = False
    echoed_at: datetime | None = time_field()
    conversation: str | None = None
    proof: str | None = None
    channel: str | None = None


class DeliveryFields(Shape):
    checkpoint: CheckpointRef
    to: Name = Field(description="Who it was handed to.")
    channel: Channel | None = Field(None, description="The way it went.")
    budget: Count | None = Field(None, description="Characters.")
    echoed: Flag = Field(False, description="Whether the receiver named it.")


class DeliveryCreate(DeliveryFields, FactIn):
    model_config = example({"checkpoint": "C15", "to": "opencode", "budget": 9000})


class DeliveryPublic(DeliveryFields, FactOut):
    bytes: int | None = None
    echoed_at: datetime | None = None
    conversation: str | None = Field(None, description="The client's own id of the conversation that it went to.")
    proof: str | None = Field(
        None, description="How it is known to have arrived: transcript, where a client keeps one."
    )


DeliveryUpdate = partial(DeliveryFields, "DeliveryUpdate", without=("checkpoint",))
