"""Whether a server that was ready still works: silent in the midst of requests, and deaf to its own health check."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from sitrepd.clock import utc_now
from sitrepd.launches.engines.base import Failed, Throughput
from sitrepd.launches.suspicion import since

_TIMES = 5.0
_PATIENCE_S = 30.0
_OWN_S = 10.0
_DEAF = ("no answer", "error")
_DEATHS = ("child", "subprocess", "scheduler")
_DIED = "Its log says that a part of it has died, so it serves no more, although its main process lives"

Probe = Callable[[float], str]
"""Asks the server, within seconds: "answers", "no answer" or "error"."""


class Serving:
    """Looks at the figures of a server's batch lines; pure but for the probe, which runs in a thread of its own.

    A burst of requests ends without a word: the last line of a server that has nothing to do still tells of running
    ones. So silence alone says nothing, and a server is asked, once for each silence, before it is suspected.
    """

    def __init__(self, least_s: float, probe: Probe | None, *, tells_the_end: bool = False) -> None:
        self._least_s = least_s
        self._probe = probe
        self._tells_the_end = tells_the_end
        """Its last line tells that nothing runs any more (vLLM)."""
        self._running = 0
        self._spoke_s: float | None = None
        self._answer = ""
        self._asking: threading.Thread | None = None
        self._answered_s = -1e9
        self.died: str | None = None
        """What to say of a server of which a part is known to be dead: SGLang waits a minute before it follows."""

    def restore(self, told: Mapping[str, Any] | None, now_s: float, suspect: str | None = None) -> None:
        """What an earlier daemon had read last, and said of it."""
        self.died = suspect if suspect and suspect.startswith(_DIED) else None
        if told and not told.get("life"):
            self._hear(_busy(told.get("running"), told.get("queued"), told.get("batch")), now_s)

    def note(self, event: Throughput, now_s: float) -> None:
        """A batch line; the one that the health check itself makes tells nothing."""
        if not (self._is_own(now_s) and event.batch == "prefill"):
            self._hear(_busy(event.running, event.queued, event.batch), now_s)

    def fail(self, event: Failed) -> None:
        """A failed request is none of the server; a process of its own that died is, even where nobody asks it."""
        if event.where in _DEATHS and self.died is None:
            self.died = f"{_DIED}: {event.cause}"

    def _hear(self, running: int, now_s: float) -> None:
        self._running, self._spoke_s, self._answer = running, now_s, ""

    def moved(self, now_s: float) -> None:
        """Its log has grown, by whatever line."""
        if self._spoke_s is not None and not self._is_own(now_s):
            self._spoke_s, self._answer = now_s, ""

    def _is_own(self, now_s: float) -> bool:
        """Whether what the log says now may come of having asked."""
        return self._asking is not None or now_s - self._answered_s < _OWN_S

    def look(self, now_s: float, may_disturb: Callable[[], bool]) -> str | None:
        """What to say of a server that does not work any more; None as long as it may."""
        if self.died:
            return self.died
        if not self._running or self._spoke_s is None:
            return None
        silent_s = now_s - self._spoke_s
        if silent_s < self._least_s:
            return None
        if self._tells_the_end or not may_disturb():
            # What is being measured is not asked: then its silence must last, for its client does wait.
            return _words(silent_s, self._running, "") if silent_s >= _TIMES * self._least_s else None
        if self._probe is None:
            return None
        if not self._answer and self._asking is None:
            self._asking = threading.Thread(target=self._ask, name="sitrep-health", daemon=True)
            self._asking.start()
        return _words(silent_s, self._running, self._answer) if self._answer in _DEAF else None

    def _ask(self) -> None:
        assert self._probe is not None
        answer = "answers"
        try:
            answer = self._probe(_PATIENCE_S)
        finally:
            self._answered_s, self._answer = time.monotonic(), answer
            if answer == "answers":
                self._running = 0
            self._asking = None


def _busy(running: Any, queued: Any, batch: Any) -> int:
    """Requests in work as a line tells them; a prefill is the work of at least one."""
    known = sum(one for one in (running, queued) if isinstance(one, int))
    return max(known, 1) if batch == "prefill" else known


def _words(silent_s: float, running: int, answer: str) -> str:
    told = f"It is ready, and has said nothing since {since(utc_now(), silent_s)}"
    told += f" with {running} request{'s' if running > 1 else ''} in work"
    if answer == "no answer":
        return f"{told}; its health check does not answer either."
    if answer == "error":
        return f"{told}; its health check says that it does not work."
    return f"{told}."
