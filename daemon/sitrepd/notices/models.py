"""A notice, as it is sent; nothing of it is stored."""

from __future__ import annotations

from pydantic import BaseModel, Field

from sitrepd.settings import Notable

Kind = Notable

# What wants somebody to look.
URGENT: frozenset[Kind] = frozenset({"failed", "lost", "gpu_lost"})


class Notice(BaseModel):
    """What a webhook gets."""

    kind: Kind
    subject: str = Field(description="The public id of what it is about.")
    session: str | None = Field(None, description="The session's id and name.")
    title: str
    text: str
    at: str
