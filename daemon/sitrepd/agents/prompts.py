"""What a submitted prompt is: the word of the user, a question for the state of things, or words of the client."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["user", "asking", "synthetic"]

_ASKING = re.compile(r"(?:[.…]|status|sitrep|/status)[.?!]?", re.IGNORECASE)
_OUR_COMMAND = re.compile(r"/(?:[\w-]+:)*(?:mcp__)?sitrep(?:[:_][\w:]+)?(?:\s.*)?", re.IGNORECASE | re.DOTALL)
# What clients submit in the user's name.
_SYNTHETIC = re.compile(
    r"<(?:task-notification|local-command-\w+|command-(?:name|message|args)|bash-(?:input|stdout|stderr)|"
    r"system-reminder|turn_aborted|user_instructions|environment_context)\b|"
    r"Continue if you have next steps|This session is being continued from a previous conversation|"
    r"Caveat: The messages below were generated|What this agent waits for has happened\. Sitrep: ",
)
_CONTEXT = re.compile(r"\s*<hook_context>.*?</hook_context>\s*", re.DOTALL)


@dataclass(frozen=True)
class Prompt:
    """`text` is what was submitted, without what hooks have put in front of it."""

    text: str
    kind: Kind


def prompt_of(submitted: str, synthetic: bool = False) -> Prompt:
    """What a prompt is, by its own words."""
    text = _CONTEXT.sub("", submitted, count=1) if submitted.lstrip().startswith("<hook_context>") else submitted
    if synthetic or _SYNTHETIC.match(text.lstrip()):
        return Prompt(text, "synthetic")
    return Prompt(text, "asking" if is_asking(text) else "user")


def is_asking(text: str) -> bool:
    """Nothing, a dot, `status`, or a slash command of ours: the user waits, and wants to know how things stand."""
    bare = text.strip()
    return len(bare) < 500 and (not bare or bool(_ASKING.fullmatch(bare)) or bool(_OUR_COMMAND.fullmatch(bare)))
