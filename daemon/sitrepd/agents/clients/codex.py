"""Codex: Claude Code's events with fields of its own. It drops an output with a field that it does not know."""

from __future__ import annotations

import time
from collections.abc import Mapping

from sitrepd.agents import doings
from sitrepd.agents.call import NOTHING, Answer, Call, Handler
from sitrepd.agents.clients import claude_code

_HERE = "agents_resumed"
_TOGETHER_S = 5.0


async def session_start(call: Call) -> Answer:
    """A conversation that goes on and is compacted at once calls it twice; both answers would stand side by side."""
    source = call.payload.text("source") or "startup"
    resumed: dict[str, float] = call.runtime.live.setdefault(_HERE, {})
    name, now = call.place.conversation or "", time.monotonic()
    if source == "compact" and now - resumed.pop(name, -_TOGETHER_S) < _TOGETHER_S:
        return NOTHING
    if source == "resume":
        resumed[name] = now
    return await doings.begins(call, source, "SessionStart")


async def pre_compact(call: Call) -> Answer:
    """It has no place for instructions."""
    call.runtime.live.setdefault(_HERE, {}).pop(call.place.conversation or "", None)
    await doings.is_about_to_be_compacted(call)
    return NOTHING


EVENTS: Mapping[str, Handler] = {
    "session-start": Handler(session_start, "SessionStart"),
    "user-prompt-submit": claude_code.EVENTS["user-prompt-submit"],
    "pre-compact": Handler(pre_compact),
    "post-compact": claude_code.EVENTS["post-compact"],
    "stop": claude_code.EVENTS["stop"],
    "waiting": claude_code.EVENTS["waiting"],
    "post-tool-use": claude_code.EVENTS["post-tool-use"],
    "session-end": claude_code.EVENTS["session-end"],
}
