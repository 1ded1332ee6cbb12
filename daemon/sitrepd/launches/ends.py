"""What the event log tells of the end of a launch: the end itself, and what it was found to have died of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sitrepd.launches.states import ENDED

ENDS = ("ready", *ENDED)
LOOKED_INTO = "looked_into"
"""In an event of an end: False where it is yet to be looked into, which an event with True and the state follows."""


def end_told(kind: str, data: Mapping[str, Any]) -> str | None:
    """The state that is worth telling now: of a failure once its cause has been looked for."""
    state = data.get("state") or (data.get("ended_as") if data.get(LOOKED_INTO) else None)
    if kind not in ("launch.changed", "launch.created") or state not in ENDS:
        return None
    return None if data.get(LOOKED_INTO) is False else str(state)
