"""What `sitrep mcp` answers where no daemon does: the tools are there, and say so."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from sitrepd.agents.mcp import alone
from sitrepd.agents.mcp.ask import Refused, Reply
from sitrepd.cli.client import Unreachable
from sitrepd.cli.verbs import Cli
from sitrepd.errors import SitrepError

_RESUME = "/sessions/current/resume"


def answer(cli: Cli, body: bytes, headers: Mapping[str, str], error: SitrepError) -> bytes:
    """The answer to one message; the last checkpoint that was written stands in for the latest."""

    async def ask(
        method: str,  # noqa: ARG001
        path: str,
        told: Any = None,
        query: Mapping[str, Any] | None = None,  # noqa: ARG001
    ) -> Reply:
        if path == _RESUME and (text := _left_behind(cli, error, told)) is not None:
            return Reply(200, text.encode())
        raise Refused(
            f"Sitrep's daemon cannot be reached, so nothing was done: {error.detail.rstrip('.')}. Go on without it, "
            "keep in mind what you would have recorded, and call again later; `sitrep status` in a shell says more."
        )

    return asyncio.run(alone.answer(body, headers, ask)).body


def _left_behind(cli: Cli, error: SitrepError, told: Any) -> str | None:
    from sitrepd.cli.resume import left_behind

    unreachable = error if isinstance(error, Unreachable) else Unreachable(error.detail)
    try:
        return left_behind(cli, unreachable, str((told or {}).get("budget") or 9000)).text
    except (SitrepError, OSError):
        return None
