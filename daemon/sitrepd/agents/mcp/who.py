"""Who uses a tool, from where: by the headers of the request, and by what clients write into `_meta` of a message."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers

from sitrepd.routing import utf8
from sitrepd.sessions.current import elsewhere

CALLER = "sitrep/caller"
_CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
_CODEX_TURN = "x-codex-turn-metadata"
_KNOWN = {"claude-code": "claude-code", "opencode": "opencode", "codex": "codex", "gemini": "gemini"}
_SAFE = re.compile(r"[^a-z0-9.]+")


@dataclass(frozen=True)
class Who:
    """`hint` are the headers by which the API finds the session."""

    client: str
    hint: Mapping[str, str]
    cwd: str | None
    caller: Mapping[str, Any] | None


def who(headers: Headers, message: Any) -> Who:
    """Of one request; a session among the arguments goes before all else."""
    params = _mapping(_mapping(message).get("params"))
    meta = _mapping(params.get("_meta"))
    hint = {
        name: value
        for name in ("x-sitrep-session", "x-sitrep-conversation", "x-sitrep-cwd", "x-sitrep-host")
        if (value := headers.get(name))
    }
    conversation = _mapping(meta.get(_CODEX_TURN)).get("session_id")
    if isinstance(conversation, str) and conversation.isascii() and conversation.isprintable():
        hint.setdefault("x-sitrep-conversation", conversation[:200])
    told = _mapping(params.get("arguments")).get("session")
    if isinstance(told, str) and told.strip():
        hint["x-sitrep-session"] = told.strip().encode().decode("latin-1")
    caller = meta.get(CALLER)
    return Who(
        client=_client(headers, meta),
        hint=hint,
        cwd=None if elsewhere(headers.get("x-sitrep-host")) else utf8(headers.get("x-sitrep-cwd")),
        caller=caller if isinstance(caller, Mapping) else None,
    )


def _client(headers: Headers, meta: Mapping[str, Any]) -> str:
    """The name that hooks give it too, where it is one of those."""
    told = _mapping(meta.get(_CLIENT_INFO)).get("name") or headers.get("x-sitrep-client")
    name = _SAFE.sub("-", str(told or headers.get("user-agent", "").partition("/")[0]).lower()).strip("-")[:60]
    return next(
        (ours for begin, ours in _KNOWN.items() if name.startswith(begin)),
        f"mcp-{name}" if told and name != "mcp" else "mcp",
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
