"""Findings: what was established, with its evidence."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sitrepd.shapes import AnyRefOrText, FactIn, FactOut, FindingRef, Name, Shape, Text, example, partial
from sitrepd.storage.base import FactRow, json_field, link

Kind = Literal["root_cause", "constraint", "decision", "rejected", "hypothesis", "observation"]
Status = Literal["open", "confirmed", "refuted", "superseded"]


class Finding(FactRow, table=True):
    kind: str
    title: str
    detail: str | None = None
    reason: str | None = None
    evidence: list[str] = json_field()
    status: str = "open"
    supersedes_id: int | None = link("finding")


class FindingFields(Shape):
    kind: Kind
    title: Name
    detail: Text | None = None
    reason: Text | None = Field(None, description="Why: for a rejected option, why it is not to be tried again.")
    evidence: list[AnyRefOrText] = Field(default_factory=list, description="Ids of facts, or text.")
    status: Status = "open"
    supersedes: FindingRef | None = Field(None, description="The finding that this one replaces.")


class FindingCreate(FindingFields, FactIn):
    model_config = example(
        {
            "kind": "rejected",
            "title": "FP8 KV cache",
            "reason": "Accept rate falls by half.",
            "status": "confirmed",
        }
    )


class FindingPublic(FindingFields, FactOut):
    pass


FindingUpdate = partial(FindingFields, "FindingUpdate")
