"""The tools that give something back: the checkpoint, and what was told, by its words."""

from __future__ import annotations

from typing import Any

from sitrepd.agents.mcp.tool import Tool, Use, listed, text, texts

_MOST = 50


async def hand_over(use: Use, budget: Any = None) -> str:
    """The latest checkpoint with what is new since, remembered as a delivery by MCP."""
    told = {"to": use.client, "channel": "mcp"} | ({} if budget is None else {"budget": budget})
    return (await use.ask("POST", "/sessions/current/resume", told)).text


async def _get_checkpoint(use: Use) -> str:
    return await hand_over(use, use.told.get("budget"))


async def _search(use: Use) -> str:
    query = {
        "q": use.told["query"],
        "kind": listed(use.told.get("kind")) or None,
        "limit": use.told.get("limit") or 10,
        "session": use.told.get("session"),
    }
    page = (await use.ask("GET", "/search", query=query)).data
    found = page["data"]
    if not found:
        return "Nothing that was told holds these words."
    lines = ["No fact holds all of these words; these hold some:"] if page["matched"] == "any" else []
    lines += [_found(one) for one in found]
    if page["count"] > len(found):
        lines.append(f"{len(found)} of {page['count']}{' or more' if page.get('at_least') else ''}; narrow it by kind.")
    return "\n".join(lines)


def _found(one: dict[str, Any]) -> str:
    about = ", ".join(str(one[key]) for key in ("state", "session") if one.get(key))
    name = str(one.get("name") or "").removeprefix(one["id"]).strip()
    head = f"{one['id']} {one['type'].replace('_', ' ')}{f' ({about})' if about else ''}{f': {name}' if name else ''}"
    return f"{head}\n    {' '.join(str(one['snippet']).split())}"


GET_CHECKPOINT = Tool(
    "get_checkpoint",
    "Where the work stands",
    "The state of this work from Sitrep: goal, the user's directives, best configuration with its exact command, "
    "measurements, rejected options with reasons, what runs now, next steps. Call it first after a compaction or "
    "restart, and whenever unsure.",
    {
        "budget": {
            "type": ["integer", "string"],
            "description": "Most characters (9000 if absent), or tokens as 2000t; brief, standard, full.",
        }
    },
    _get_checkpoint,
    reads=True,
    meta={"anthropic/alwaysLoad": True},
)
SEARCH = Tool(
    "search",
    "Search all that was told",
    "Find facts of all sessions by their words: findings, launches, benchmarks, messages, commands.",
    {
        "query": text('Words, "a phrase", or begin*; all are to be found.'),
        "kind": texts("Only these kinds: finding, launch, benchmark, message, directive, …"),
        "limit": {"type": "integer", "minimum": 1, "maximum": _MOST, "description": "How many; 10 if absent."},
    },
    _search,
    required=("query",),
    reads=True,
)
