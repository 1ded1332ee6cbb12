"""One call of a hook, and the answer that its client prints or takes into its context."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from sitrepd.agents.conversations import Place
from sitrepd.agents.payload import Payload
from sitrepd.runtime import Runtime
from sitrepd.services import Service

log = logging.getLogger(__name__)
_HERE = "agents"
_AT_THE_END_S = 3.0
# Whoever is answered by something else, as an error page of a proxy is, puts nothing of it before a model.
MARK = "sitrep=hook"


@dataclass(frozen=True)
class Call:
    """A hook that was called in a session."""

    runtime: Runtime
    payload: Payload
    place: Place
    session_id: int
    asked: Mapping[str, str] = field(default_factory=dict)
    """What the request says besides, in its query."""

    @property
    def is_late(self) -> bool:
        """Whether it was kept for a while, so that nobody waits for the answer."""
        return "late" in self.asked


@dataclass(frozen=True)
class Answer:
    """What the hook prints: nothing, plain text, or a context that goes before the model."""

    text: str = ""
    context_of: str | None = None
    """The event whose context it is, by the client's own name; the answer is then JSON."""
    output: Mapping[str, Any] | None = None
    """What a client takes in another form of its own."""

    def body(self) -> str:
        output = self.output
        if output is None and self.context_of is not None and self.text:
            output = {"hookEventName": self.context_of, "additionalContext": self.text}
        return self.text if output is None else json.dumps({"hookSpecificOutput": output}, ensure_ascii=False)

    @property
    def media_type(self) -> str:
        is_json = self.output is not None or (self.context_of is not None and self.text)
        return f"{'application/json' if is_json else 'text/plain; charset=utf-8'}; {MARK}"


NOTHING = Answer()
Handle = Callable[[Call], Awaitable[Answer]]


@dataclass(frozen=True)
class Handler:
    """What is done at an event; `context_of` names the event where its answer goes before the model."""

    handle: Handle
    context_of: str | None = None
    plain: bool = False
    """Whether plain text is an answer too, so that the honest line may be given where there is no session."""


class Tasks:
    """What goes on after a hook was answered; it is held here until it is done."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def later(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(self._quietly(work))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def finished(self, most_s: float) -> None:
        """Wait for what was begun, so long at the most."""
        if self._running:
            await asyncio.wait(set(self._running), timeout=most_s)

    async def _quietly(self, work: Coroutine[Any, Any, Any]) -> None:
        try:
            await work
        except Exception:
            log.exception("what a hook asked for failed after its answer")


class Afterwards(Service):
    """Lets what hooks have begun come to its end before the store is closed."""

    name = "agents"

    def __init__(self, runtime: Runtime) -> None:
        self._tasks = tasks(runtime)

    async def run(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await self._tasks.finished(_AT_THE_END_S)


def tasks(runtime: Runtime) -> Tasks:
    """The ones of this daemon."""
    found = runtime.live.get(_HERE)
    if not isinstance(found, Tasks):
        found = runtime.live[_HERE] = Tasks()
    return found
