"""Codex: Claude Code's events with fields of its own. It drops an output with a field that it does not know."""

from __future__ import annotations

from collections.abc import Mapping

from sitrepd.agents import doings
from sitrepd.agents.call import NOTHING, Answer, Call, Handler
from sitrepd.agents.clients import claude_code


async def pre_compact(call: Call) -> Answer:
    """It has no place for instructions."""
    await doings.is_about_to_be_compacted(call)
    return NOTHING


EVENTS: Mapping[str, Handler] = {
    "session-start": claude_code.EVENTS["session-start"],
    "user-prompt-submit": claude_code.EVENTS["user-prompt-submit"],
    "pre-compact": Handler(pre_compact),
    "post-compact": claude_code.EVENTS["post-compact"],
    "stop": claude_code.EVENTS["stop"],
    "post-tool-use": claude_code.EVENTS["post-tool-use"],
    "session-end": claude_code.EVENTS["session-end"],
}
