"""Whether a launch is ready: its own processes hold the port, and its log or an HTTP answer says so."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

from sitrepd.clock import utc_now
from sitrepd.launches.engines.base import CommandFacts, Engine, Probe
from sitrepd.launches.ports import owns_listener, ports_of
from sitrepd.launches.sockets import same_network

_CHEAP_EVERY_S = 1.0
_DISTURBING_EVERY_S = 10.0
_LONG_AGO_S = 5.0
_ANSWERS_S = 1.0
_SEEK_EVERY_S = 3.0


@dataclass
class Readiness:
    """Asks no more often than it must: a probe that makes the engine generate a token is the last resort."""

    engine: Engine
    facts: CommandFacts
    said_ready: bool = False
    port_taken: bool = False
    hidden: bool = False
    """The process that serves is another user's (root's, in a container): which port it has may not be seen."""
    net_of: int | None = None
    """A process of a container; where its network is another one, its port is not ours to ask."""
    said_at: datetime | None = None
    """When its log said so."""
    may_disturb: Callable[[], bool] = lambda: True
    _asked_at: float = 0.0
    _sought_at: float = 0.0

    @property
    def is_untold(self) -> bool:
        """Whether neither the command nor the caller tells by what to know a server that is ready."""
        engine = self.engine
        return engine.name == "generic" and not engine.probes and not getattr(engine, "ready_pattern", None)

    @property
    def since(self) -> datetime | None:
        """When it became ready, of a server that was so before anybody looked; None for one that just has."""
        at = self.said_at
        return at if self.said_ready and at and (utc_now() - at).total_seconds() > _LONG_AGO_S else None

    def judge(self, pids: Callable[[], Collection[int]], log_readable: bool) -> bool:
        """True once the launch is ready; `pids` are the living processes of its tree."""
        if self.port_taken:
            return False
        if self.facts.port is None:
            return self.said_ready or self._answers(disturb=False)
        if not owns_listener(pids, self.facts.port, self.facts.host, self.net_of):
            return self.hidden and self.said_ready
        if self.said_ready:
            return True
        if self.is_untold:  # that it listens is all there is
            return True
        if self._is_elsewhere() and self.facts.engine != "sglang":
            return True
        return self._answers(disturb=not log_readable and self.may_disturb())

    def find_port(self, pids: Callable[[], Collection[int]]) -> int | None:
        """The port on which the processes answer, where none was told; seldom, as each that is silent takes a while."""
        if self.facts.port is not None or not self.is_untold or time.monotonic() - self._sought_at < _SEEK_EVERY_S:
            return None
        try:
            return answering(pids())
        finally:
            self._sought_at = time.monotonic()

    def _is_elsewhere(self) -> bool:
        return self.net_of is not None and not same_network(self.net_of)

    def _answers(self, *, disturb: bool) -> bool:
        now = time.monotonic()
        if now - self._asked_at < (_DISTURBING_EVERY_S if disturb else _CHEAP_EVERY_S):
            return False
        self._asked_at = now
        if self._is_elsewhere():
            return False
        for probe in self.engine.probes:
            if probe.disturbs and not disturb:
                continue
            verdict = self._ask(probe)
            if verdict in ("ready", "not_ready"):
                return verdict == "ready"
        return False

    def health(self, patience_s: float) -> str:
        """Whether a server that was ready still works, by the probe that makes it do so: "answers", "no answer",
        "error"; it "answers" where it cannot be asked."""
        probe = next((one for one in self.engine.probes if one.disturbs), None)
        if probe is None or self.facts.port is None or self._is_elsewhere():
            return "answers"
        status = status_of(f"http://{self._address()}{probe.path}", patience_s)
        return "no answer" if status is None else "error" if status >= 500 else "answers"

    def _ask(self, probe: Probe) -> str:
        url = probe.path if probe.path.startswith("http") else f"http://{self._address()}{probe.path}"
        status = status_of(url, probe.timeout_s)
        return "not_ready" if status is None else probe.answer(status)

    def _address(self) -> str:
        host = (self.facts.host or "127.0.0.1").strip("[]")
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
        return f"[{host}]:{self.facts.port}" if ":" in host else f"{host}:{self.facts.port}"


def answering(pids: Collection[int]) -> int | None:
    """The lowest port on which one of the processes listens and answers HTTP; ranks listen on others that do not."""
    ports = sorted(set().union(*(ports_of(pid) for pid in pids)))
    return next((port for port in ports if status_of(f"http://127.0.0.1:{port}/", _ANSWERS_S) is not None), None)


def status_of(url: str, timeout_s: float) -> int | None:
    """The HTTP status of a GET, None without an answer. No proxy stands between this machine and itself."""
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    try:
        connection = kind(parts.hostname or "", parts.port, timeout=timeout_s)
        try:
            connection.request("GET", (parts.path or "/") + (f"?{parts.query}" if parts.query else ""))
            return connection.getresponse().status
        finally:
            connection.close()
    except (OSError, HTTPException, ValueError):
        return None
