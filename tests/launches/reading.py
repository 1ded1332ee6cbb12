"""Logs fed to parsers, for the tests of the engines."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from sitrepd.launches.engines.base import LogEvent, LogParser, PhaseBegan, PhaseEnded, event_from_json, event_to_json
from sitrepd.launches.engines.sglang import SglangEngine
from sitrepd.launches.follow import LogFollower

LOGS = Path(__file__).parent.parent / "data" / "logs"
SEEN = datetime(2026, 12, 2, 12, tzinfo=UTC)
E = TypeVar("E", bound=LogEvent)
EAGLE_PHASES = [
    "starting", "dist_init", "load_weights", "load_draft_weights", "kv_cache", "draft_kv_cache", "capture_prefill",
    "capture_verify", "capture_draft_prefill", "capture_draft_decode", "capture_draft_extend", "http_start", "warmup",
]  # fmt: skip
"""What a start with an EAGLE-3 draft goes through, as recorded with SGLang 0.5.16."""


def read_file(path: Path, parser: LogParser | None = None) -> list[LogEvent]:
    """Every event of a finished log, its times taken as UTC."""
    parser = parser or SglangEngine().parser(tz=UTC)
    follower = LogFollower(path)
    events = []
    while not follower.at_end:
        events += [event for line in follower.read() for event in parser.feed(line, SEEN)]
    events += [event for line in follower.finish() for event in parser.feed(line, SEEN)]
    return events + parser.finish(SEEN)


def read_log(name: str) -> list[LogEvent]:
    events = read_file(LOGS / f"{name}.log")
    told = json.loads(json.dumps([event_to_json(event) for event in events]))
    assert [event_from_json(data) for data in told] == events
    return events


def feed(lines: Iterable[str], parser: LogParser | None = None) -> list[LogEvent]:
    parser = parser or SglangEngine().parser(tz=UTC)
    return [event for line in lines for event in parser.feed(line, SEEN)]


def only(events: Iterable[LogEvent], kind: type[E]) -> list[E]:
    return [event for event in events if isinstance(event, kind)]


def phases(events: Iterable[LogEvent]) -> list[str]:
    """Begins as "+name" and ends as "-name", in their order."""
    return [
        ("+" if isinstance(event, PhaseBegan) else "-") + event.phase
        for event in events
        if isinstance(event, PhaseBegan | PhaseEnded)
    ]


def elapsed(events: Iterable[LogEvent]) -> dict[str, float | None]:
    return {event.phase: event.elapsed_s for event in only(events, PhaseEnded)}
