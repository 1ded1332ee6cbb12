"""Which conversation of an agent a call of the command line belongs to, by what its client sets in its shell."""

from __future__ import annotations

import os

OWN = "SITREP_CONVERSATION"
# Of opencode's shell our plug-in sets the first; Claude Code and Codex set theirs by themselves.
NAMES = (OWN, "CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID")


def conversation(in_shell: bool = True) -> str | None:
    """The id; what outlives a conversation of its client, as `sitrep mcp` does, goes by our own name alone."""
    return next((told for name in (NAMES if in_shell else (OWN,)) if (told := os.environ.get(name))), None)
