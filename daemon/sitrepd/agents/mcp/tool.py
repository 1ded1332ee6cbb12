"""What a tool is: a name, a short description, a schema of its arguments, and what it does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sitrepd.agents.mcp.ask import Ask, Refused

Report = Callable[[float, str], Awaitable[None]]
Run = Callable[["Use"], Awaitable[str]]
SESSION = {
    "type": "string",
    "description": "Id or name of the session; only where it is not clear from the conversation or folder.",
}


async def _quiet(_seconds: float, _text: str) -> None:
    return None


@dataclass(frozen=True)
class Use:
    """One use of a tool: its arguments, who uses it and from where, and how the API is asked."""

    told: Mapping[str, Any]
    ask: Ask
    client: str = "mcp"
    cwd: str | None = None
    caller: Mapping[str, Any] | None = None
    """Folder, environment and limits of the process that the client runs in, where it is on this machine."""
    report: Report = _quiet

    def given(self, *names: str) -> dict[str, Any]:
        """Those of these arguments that were given."""
        return {name: self.told[name] for name in names if self.told.get(name) is not None}


@dataclass(frozen=True)
class Tool:
    """`reads` marks one that changes nothing; `meta` is the client's own business."""

    name: str
    title: str
    about: str
    arguments: Mapping[str, Any]
    run: Run
    required: tuple[str, ...] = ()
    reads: bool = False
    meta: Mapping[str, Any] | None = field(default=None)

    @property
    def schema(self) -> dict[str, Any]:
        """Unknown arguments are refused by `check`, which says which there are; clients' validators would not."""
        return {
            "type": "object",
            "properties": {**self.arguments, "session": SESSION},
            **({"required": list(self.required)} if self.required else {}),
        }

    def check(self, told: Mapping[str, Any]) -> None:
        """Raises Refused that names what is unknown or missing."""
        known = (*self.arguments, "session")
        unknown = [name for name in told if name not in known]
        missing = [name for name in self.required if told.get(name) in (None, "")]
        if unknown or missing:
            wrong = [*(f"{name} is unknown" for name in unknown), *(f"{name} is missing" for name in missing)]
            raise Refused(f"{self.name}: {', '.join(wrong)}. Its arguments are {', '.join(known)}.")


def text(about: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": about, **more}


def texts(about: str) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string"}, "description": about}


def listed(value: Any) -> list[str]:
    """A list, also where one word was given for it."""
    return [] if value is None else [str(one) for one in value] if isinstance(value, list) else [str(value)]
