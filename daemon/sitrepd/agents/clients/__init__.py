"""What each client sends and wants printed; `CLIENTS` has the events of each that are listened to."""

from __future__ import annotations

from collections.abc import Mapping

from sitrepd.agents.call import Handler
from sitrepd.agents.clients import claude_code, codex, gemini, opencode

CLIENTS: Mapping[str, Mapping[str, Handler]] = {
    "claude-code": claude_code.EVENTS,
    "codex": codex.EVENTS,
    "gemini": gemini.EVENTS,
    "opencode": opencode.EVENTS,
}
