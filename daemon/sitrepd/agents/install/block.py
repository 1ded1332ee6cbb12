"""The six lines on Sitrep in AGENTS.md, which agents of every client read, between marks by which they are renewed."""

from __future__ import annotations

import re

BEGIN = "<!-- sitrep: kept up to date by `sitrep init` -->"
END = "<!-- /sitrep -->"
LINES = (
    "- Sitrep remembers this work. After any loss of context call `get_checkpoint` (MCP) or `sitrep resume` first.",
    "- Name the checkpoint (such as C15) in your first answer; copy ids, numbers, flags and paths as they stand there.",
    "- Start servers by `sitrep launch`, other long commands by `sitrep run --`; `sitrep wait` instead of polling.",
    "- Record what is established: `sitrep finding add KIND TITLE --reason WHY`; rejected options above all.",
    "- Directives marked as proposed come from the user's messages: `sitrep directive confirm D5`, or `dismiss D5`.",
    "- Write no state into this file; `sitrep next-step add TEXT` and `sitrep bench import FILE` keep it.",
)
_BLOCK = re.compile(r"<!-- sitrep:.*?<!-- /sitrep -->(?:\r?\n)?", re.DOTALL)


def with_block(text: str) -> str:
    """The text with the block as it is now: where one stands, else at the end."""
    newline = "\r\n" if "\r\n" in text else "\n"
    block = newline.join((BEGIN, *LINES, END)) + newline
    if _BLOCK.search(text):
        return _BLOCK.sub(lambda _: block, text, count=1)
    if not text:
        return block
    return text + ("" if text.endswith("\n") else newline) + newline + block
