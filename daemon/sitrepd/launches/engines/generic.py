"""Any server: readiness by an address or a pattern, progress by whatever tqdm-like bars it draws."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any

from sitrepd.launches.engines import _flags
from sitrepd.launches.engines._failures import FailureWatch
from sitrepd.launches.engines._lines import Bar, find_bar, plain
from sitrepd.launches.engines._phases import PhaseTracker
from sitrepd.launches.engines._sglang_lines import bound_to, cannot_listen, taken_port
from sitrepd.launches.engines.base import (
    CommandFacts,
    Listening,
    LogEvent,
    LogParser,
    PortTaken,
    Probe,
    Ready,
    StopStep,
)
from sitrepd.redact import is_secret_name, redact_argv

_LOADING = re.compile(r"load|shard|weight|download|fetch|safetensors|checkpoint", re.IGNORECASE)
_CAPTURING = re.compile(r"captur|graph|compil|autotun|warm", re.IGNORECASE)
_MATCHED_LENGTH = 4096


class GenericEngine:
    """What the caller says is all that is known; raises ValueError for a `ready_pattern` that is no regex."""

    name = "generic"

    def __init__(self, ready_url: str | None = None, ready_pattern: str | None = None) -> None:
        self.ready_url = ready_url
        try:
            self.ready_pattern = re.compile(ready_pattern) if ready_pattern else None
        except re.error as error:
            raise ValueError(f"ready_pattern {ready_pattern!r} is no regular expression: {error}") from None

    @property
    def probes(self) -> tuple[Probe, ...]:
        if self.ready_url is None:
            return ()
        says = dict.fromkeys(range(200, 400), "ready") | dict.fromkeys(range(400, 600), "not_ready")
        return (Probe(self.ready_url, 5.0, disturbs=False, says=says),)  # type: ignore[arg-type]

    @property
    def stop_signals(self) -> tuple[StopStep, ...]:
        return (StopStep("SIGTERM", "main", 30.0), StopStep("SIGKILL", "group", 5.0))

    @property
    def skim(self) -> None:
        """Nothing is known that could be left out."""

    def recognises(self, argv: Sequence[str]) -> bool:
        return bool(argv)

    def describe(self, argv: Sequence[str], env: Mapping[str, str]) -> CommandFacts:
        """Takes the flags that most servers share; the rest is in `flags`."""
        flags, _ = _flags.parse_flags(redact_argv(_flags.words_of(argv)))
        has_key = "api_key" in flags
        flags = {name: value for name, value in flags.items() if not (is_secret_name(name) and value is not True)}
        return CommandFacts(
            engine=self.name,
            model_path=_flags.text(flags, "model_path", "model"),
            served_name=_flags.text(flags, "served_model_name"),
            host=_flags.text(flags, "host"),
            port=_flags.whole(flags, "port"),
            tp_size=_flags.whole(flags, "tensor_parallel_size", "tp_size", "tp") or 1,
            flags=flags,
            has_api_key=has_key,
            health_generates=False,
            timezone=env.get("TZ", "").removeprefix(":"),
        )

    def parser(self, state: dict[str, Any] | None = None, *, tz: tzinfo | None = None) -> LogParser:
        """`tz` is not needed: nothing is known about the times of the log."""
        del tz
        return GenericParser(self.ready_pattern, state)


class GenericParser:
    """See `LogParser`; a phase begins with its first bar and ends when the next one begins or the server is ready."""

    def __init__(self, ready_pattern: re.Pattern[str] | None, state: dict[str, Any] | None = None) -> None:
        state = state or {}
        self._pattern = ready_pattern
        self._phases = PhaseTracker(state.get("phases"))
        self._failures = FailureWatch(state.get("failures"))
        self._ready: bool = state.get("ready", False)
        self._port_taken: bool = state.get("port_taken", False)

    def state(self) -> dict[str, Any]:
        return {
            "phases": self._phases.state(),
            "failures": self._failures.state(),
            "ready": self._ready,
            "port_taken": self._port_taken,
        }

    def feed(self, line: str, seen_at: datetime) -> list[LogEvent]:
        line = plain(line)
        events = [] if self._phases.seen("starting") else self._phases.begin("starting", "", seen_at)
        bar = find_bar(line)
        if bar is not None and not self._ready:
            events = events + self._progress(bar, seen_at)
        if self._pattern is not None and not self._ready and self._pattern.search(line[:_MATCHED_LENGTH]):
            return events + self._fired_up(line, seen_at)
        return events if bar is not None else events + self._text(line, seen_at)

    def peek(self, partial: str, seen_at: datetime) -> list[LogEvent]:
        del seen_at
        bar = find_bar(plain(partial))
        return self._phases.progress(_phase_of(bar), bar, _unit(bar)) if bar and not self._ready else []

    def finish(self, seen_at: datetime) -> list[LogEvent]:
        del seen_at
        return self._failures.finish()

    def _progress(self, bar: Bar, at: datetime) -> list[LogEvent]:
        """The rank is "" throughout, so the tracker ends the phase before."""
        name = _phase_of(bar)
        events: list[LogEvent] = []
        if not self._phases.is_open(name):
            events = self._phases.begin(name, "", at)
        events += self._phases.progress(name, bar, _unit(bar))
        self._phases.remember(name, bar)
        return events

    def _fired_up(self, line: str, at: datetime) -> list[LogEvent]:
        self._ready = True
        self._failures.moved_on()
        ready = Ready(at=at, text=line.strip()[:500], suspect=self._port_taken)
        return [*self._phases.end_all(at), ready]

    def _text(self, line: str, at: datetime) -> list[LogEvent]:
        if cannot_listen(line):
            self._port_taken = True
            return [PortTaken(at=at, text=line.strip()[:500], port=taken_port(line))]
        taken = self._failures.take(line, at, self._phases.current())
        if taken is not None:
            return taken
        bound = bound_to(line) if "running on http" in line else None
        if bound:
            return [Listening(at=at, host=bound[0], port=bound[1])]
        return self._failures.judge(line, "", at, self._phases.current()) or [] if line else []


def _phase_of(bar: Bar) -> str:
    if _CAPTURING.search(bar.label):
        return "capture_graphs"
    return "load_weights" if _LOADING.search(bar.label) else "starting"


def _unit(bar: Bar) -> str:
    name = _phase_of(bar)
    return {"load_weights": "shards", "capture_graphs": "graphs"}.get(name, "steps")
