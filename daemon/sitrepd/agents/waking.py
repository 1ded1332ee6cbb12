"""Waking an agent that waits: its client asks in the background, again and again, until there is something to tell."""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass

from sitrepd.agents.call import NOTHING, Answer, Call
from sitrepd.notices.news import is_awaited, news

PIECE_S = 20.0
_HERE = "agents_waiting"
# Who has not asked for so long has ended with its client.
_GONE_S = 60.0
# A command of its own in the background tells the agent already.
_WAITS_ITSELF = re.compile(r"\bsitrep\b.*\bwait\b", re.DOTALL)


@dataclass(frozen=True)
class Waiting:
    """The one process of a conversation that asks, and from which event on."""

    by: tuple[int, ...]
    """When it was begun, and which process it is: the last one of a conversation counts."""
    since: int | None
    seen_s: float
    asks_again: bool = False


async def waiting(call: Call) -> Answer:
    """`since N` while it is to ask again with that, the news where there is some, nothing where none is to come."""
    asking = _asking(call)
    if asking is None or not call.runtime.settings.wake_agents or _waits_itself(call):
        return NOTHING
    known: dict[str, Waiting] = call.runtime.live.setdefault(_HERE, {})
    name = call.place.conversation or ""
    known[name] = asking
    # Asked before it is looked: what ends meanwhile is among the news then, or among those of the next time.
    is_awaited_still = await _is_awaited(call)
    patience_s = PIECE_S if asking.asks_again and is_awaited_still else 0
    found = await news(call.runtime, call.session_id, asking.since, patience_s)
    if known.get(name) is not asking:
        return NOTHING
    if found.notices:
        del known[name]
        return Answer("Sitrep: " + "\n".join(f"{one.title}. {one.text}" for one in found.notices))
    if not is_awaited_still:
        del known[name]
        return NOTHING
    known[name] = Waiting(asking.by, found.since, time.monotonic())
    return Answer(f"since {found.since}")


def no_more(call: Call) -> None:
    """The conversation has ended: nobody is to be woken."""
    call.runtime.live.setdefault(_HERE, {}).pop(call.place.conversation or "", None)


def _asking(call: Call) -> Waiting | None:
    """Who asks, from where its conversation was told last; None where a later one asks by now."""
    known: dict[str, Waiting] = call.runtime.live.setdefault(_HERE, {})
    before, now = known.get(call.place.conversation or ""), time.monotonic()
    by = tuple(int(part) for part in call.asked.get("by", "").split(".") if part.isdecimal() and len(part) < 40)
    since = call.asked.get("since", "")
    if before is not None and before.by > by:
        return None
    if since.isdecimal() and len(since) < 40:
        return Waiting(by, int(since), now, asks_again=True)
    if before is not None and before.since is not None and now - before.seen_s < PIECE_S + _GONE_S:
        return Waiting(by, before.since, now)
    return Waiting(by, None, now)


def _waits_itself(call: Call) -> bool:
    tasks = call.payload.listing("background_tasks")
    return any(one.get("status") == "running" and _WAITS_ITSELF.search(str(one.get("command"))) for one in tasks)


async def _is_awaited(call: Call) -> bool:
    def look() -> bool:
        with call.runtime.store.read() as db:
            return is_awaited(db, call.runtime.registry, call.session_id)

    return await asyncio.to_thread(look)
