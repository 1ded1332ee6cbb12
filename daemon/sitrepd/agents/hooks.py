"""Hooks: a payload in, what the client prints out. Nothing that a client sends makes it fail."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from sitrepd.agents import handover
from sitrepd.agents.call import NOTHING, Answer, Call, Handler
from sitrepd.agents.clients import CLIENTS
from sitrepd.agents.conversations import Place, place_of, session_of
from sitrepd.agents.payload import Payload, read
from sitrepd.errors import NoSession, SitrepError, UnknownId
from sitrepd.runtime import Runtime
from sitrepd.sessions import current

log = logging.getLogger(__name__)
_READ_AT_ONCE = 1 << 20
_REMEMBERED = 512
_HERE = "hooks_seen"
HasGone = Callable[[], Awaitable[bool]]


async def answer(
    runtime: Runtime, client: str, event: str, body: bytes, hint: current.Hint, asked: Mapping[str, str] | None = None,
    has_gone: HasGone | None = None,
) -> Answer:  # fmt: skip
    """What the hook of that client prints; nothing for an event that means nothing to us."""
    payload = await _read(client, event, body)
    if (payload.client, payload.event) == ("doctor", "ping"):
        return Answer("pong")
    events = CLIENTS.get(payload.client)
    if events is None:
        raise UnknownId(f"There is no client {client!r}; hooks of {', '.join(CLIENTS)} are understood.")
    runtime.counters[f"hook {payload.client} {payload.event}"] += 1
    handler = events.get(payload.event)
    if handler is None or _seen_before(runtime, payload):
        return NOTHING
    place = place_of(payload, hint)
    try:
        number = await asyncio.to_thread(_session, runtime, place)
    except (NoSession, UnknownId) as error:
        return _without_session(handler, error)
    call = Call(runtime, payload, place, number, asked or {})
    if handler.context_of is None:
        return await _taken(call, handler, has_gone)
    async with handover.on_its_way(runtime, place):
        return await _taken(call, handler, has_gone)


async def _taken(call: Call, handler: Handler, has_gone: HasGone | None) -> Answer:
    """The answer; where its client has not waited for it, that is noted, so that the next hook makes up for it."""
    found = await handler.handle(call)
    if found.context_of is not None and found.text and has_gone is not None and await has_gone():
        await handover.note_missed(call.runtime, call.session_id, call.place)
    return found


async def _read(client: str, event: str, body: bytes) -> Payload:
    if len(body) > _READ_AT_ONCE:
        return await asyncio.to_thread(read, client, event, body)
    return read(client, event, body)


def _session(runtime: Runtime, place: Place) -> int:
    with runtime.store.read() as db:
        return session_of(db, place)


def _without_session(handler: Handler, error: SitrepError) -> Answer:
    """One honest line where a checkpoint was to go."""
    if handler.context_of is None and not handler.plain:
        return NOTHING
    return Answer(handover.nothing(error.detail), handler.context_of)


def _seen_before(runtime: Runtime, payload: Payload) -> bool:
    """Whether this very prompt or tool call was told already, by a second set of hooks of the same client."""
    name = payload.text("tool_use_id") if payload.text("tool_name") else payload.text("prompt_id")
    if name is None or payload.event not in ("user-prompt-submit", "post-tool-use"):
        return False
    seen: OrderedDict[Any, None] = runtime.live.setdefault(_HERE, OrderedDict())
    key = (payload.conversation, payload.event, name, hash(payload.prompt))
    if key in seen:
        return True
    seen[key] = None
    if len(seen) > _REMEMBERED:
        seen.popitem(last=False)
    return False
