"""What a hook sends: read as it comes, whatever fields it has, however long it is."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sitrepd.errors import InvalidFact

_SURROGATES = re.compile("[\ud800-\udfff]")
_NAME = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True)
class Payload:
    """One call of a hook; unknown fields are kept out of the way, and missing ones are None."""

    client: str
    event: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    def text(self, *names: str) -> str | None:
        """The first of these fields that is a text that is not empty."""
        found = (self.fields.get(name) for name in names)
        return next((clean(value) for value in found if isinstance(value, str) and value), None)

    def mapping(self, name: str) -> Mapping[str, Any]:
        value = self.fields.get(name)
        return value if isinstance(value, Mapping) else {}

    def listing(self, name: str) -> list[Mapping[str, Any]]:
        value = self.fields.get(name)
        return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []

    @property
    def prompt(self) -> str | None:
        """What was submitted, also where that is empty; None where the field is missing."""
        value = self.fields.get("prompt")
        return clean(value) if isinstance(value, str) else None

    @property
    def conversation(self) -> str | None:
        """The client's own id of its conversation."""
        found = self.text("session_id", "sessionID", "conversation_id", "thread_id")
        return found[:200] if found else None

    @property
    def cwd(self) -> str | None:
        return self.text("cwd", "directory", "working_directory")

    @property
    def is_of_subagent(self) -> bool:
        """Whether an agent that another agent started speaks; the summariser of Claude Code is one without a type."""
        return "agent_id" in self.fields or "parentID" in self.fields


def read(client: str, event: str, body: bytes) -> Payload:
    """The payload; InvalidFact where it is no JSON object. Bytes that are no UTF-8 become U+FFFD."""
    try:
        fields = json.loads(body.decode("utf-8", "replace"), strict=False) if body.strip() else {}
    except (ValueError, RecursionError) as error:
        raise InvalidFact(f"The payload of a hook is a JSON object; this is none: {error}.") from error
    if not isinstance(fields, dict):
        raise InvalidFact(f"The payload of a hook is a JSON object, and not {type(fields).__name__}.")
    return Payload(slug(client), slug(event), fields)


def slug(name: str) -> str:
    """`SessionStart`, `session_start` and `session.start` are the same event: session-start."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name)
    return _NAME.sub("-", spaced.lower()).strip("-")


def clean(text: str) -> str:
    """What no store can hold, halves of surrogate pairs and NUL, as U+FFFD."""
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)
