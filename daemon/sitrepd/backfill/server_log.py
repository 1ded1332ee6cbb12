"""A server's log, read once from front to end: its starts, each with what became of it."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from sitrepd.backfill import text
from sitrepd.backfill.commands import traced_command
from sitrepd.backfill.found import Start
from sitrepd.backfill.picture import Picture
from sitrepd.backfill.thin import Line, Thinner
from sitrepd.launches.diagnosis import Diagnosis
from sitrepd.launches.diagnosis.beside import Beside
from sitrepd.launches.diagnosis.conclude import conclude
from sitrepd.launches.diagnosis.diagnose import Reading
from sitrepd.launches.diagnosis.prefixes import unwrapped
from sitrepd.launches.diagnosis.source import Physical
from sitrepd.launches.engines import base as e
from sitrepd.launches.engines import engine_named
from sitrepd.redact import redact_text

_STAMPS = re.compile(
    rb"\[(20\d\d-\d\d-\d\d \d\d:\d\d:\d\d)|\b(?:INFO|WARNING|ERROR|DEBUG) (\d\d-\d\d \d\d:\d\d:\d\d)[ .]"
)
_TAIL = 64 << 10
_PREAMBLE = 60
_PAUSE = timedelta(seconds=3)
_NO_FINDING = (None, "request_rejected", "slow_load")
_CUT = "Its log does not show the beginning of the start."
_UNTIMED = "Its log has no times: the start and the end are those of the file's last change."


def read_server_log(path: str, engine: str, mtime: datetime, tz: tzinfo | None) -> list[Start]:
    """Its starts in order; raises one of `text.UNREADABLE`."""
    log = _Log(path, engine, mtime, tz)
    with text.opened(path) as file:
        for block in text.blocks(file):
            log.feed(block)
    log.cut()
    for start in log.starts:
        start.alone = len(log.starts) == 1
    return log.starts


class _Log:
    def __init__(self, path: str, engine: str, mtime: datetime, tz: tzinfo | None) -> None:
        self.path, self.engine, self.mtime, self.tz = path, engine, mtime, tz
        self.starts: list[Start] = []
        self._parser = engine_named(engine).parser(tz=tz)
        self._thinner = Thinner(engine)
        self._traced: str | None = None
        self._block = b""
        self._recent: deque[tuple[datetime, Line]] = deque(maxlen=_PREAMBLE)
        self._begin(1)

    def _begin(self, line: int) -> None:
        self._picture, self._reading, self._first_line = Picture(), Reading(), line
        self._first_at: datetime | None = None
        self._last_at: datetime | None = None
        self._begun_by: str | None = None
        self._set_at: datetime | None = None

    def feed(self, block: bytes) -> None:
        self._block = block
        for line in self._thinner.lines(block):
            self._feed(line)
        stamps = list(_STAMPS.finditer(block, max(0, len(block) - _TAIL)))
        if stamps:
            self._last_at = self._time(stamps[-1]) or self._last_at

    def _feed(self, line: Line) -> None:
        if self._first_at is None and (stamp := _STAMPS.search(line.text)):
            self._first_at = self._time(stamp)
        raw = line.text.rstrip(b"\r").replace(b"\0", b"").decode("utf-8", "replace")
        self._traced = traced_command(raw) or self._traced
        gap = line.gap
        for piece in raw.split("\r"):
            events = self._parser.feed(unwrapped(piece), self.mtime)
            if any(isinstance(event, e.Restarted) for event in events):
                self._start_again(line)
            for event in events:
                self._note(event)
            if piece:
                self._reading.read(iter([Physical(line.number, piece, gap)]))
                gap = False
        if (stamp := _STAMPS.search(line.text)) and (at := self._time(stamp)):
            self._last_at = at
            self._recent.append((at, line))

    def _start_again(self, line: Line) -> None:
        """What the new server printed before its settings follows the last pause in the log."""
        stamp = _STAMPS.search(line.text)
        at = self._time(stamp) if stamp else None
        first, begun = line, at
        for earlier, before in reversed(self._recent):
            if begun is None or not timedelta(0) <= begun - earlier <= _PAUSE:
                self._last_at = self._last_before(first) or earlier
                break
            first, begun = before, earlier
        else:
            first, begun = line, at
        self.cut()
        self._begin(first.number)
        self._first_at = begun
        self._recent.clear()
        self._thinner.start_again()

    def _last_before(self, line: Line) -> datetime | None:
        """The time of the last line before that one, of those that were passed over too."""
        place = self._block.find(line.text)
        stamps = list(_STAMPS.finditer(self._block, max(0, place - _TAIL), max(place, 0)))
        return self._time(stamps[-1]) if stamps else None

    def _note(self, event: e.LogEvent) -> None:
        self._picture.feed(event)
        if isinstance(event, e.Settings):
            self._begun_by, self._traced = self._traced or self._begun_by, None
            self._set_at = self._set_at or (event.at if event.at != self.mtime else None)

    def _time(self, stamp: re.Match[bytes]) -> datetime | None:
        if stamp[1]:
            return self._utc(stamp[1].decode())
        for year in (self.mtime.year + 1, self.mtime.year, self.mtime.year - 1):
            at = self._utc(f"{year}-{stamp[2].decode()}")
            if at is not None and at <= self.mtime + timedelta(days=1):
                return at
        return None

    def _utc(self, told: str) -> datetime | None:
        try:
            at = datetime.fromisoformat(told)
            return (at if self.tz is None else at.replace(tzinfo=self.tz)).astimezone(UTC)
        except (ValueError, OverflowError):
            return None

    def cut(self) -> None:
        """The start that was read is over: the log ends here, or another server begins."""
        for event in self._parser.finish(self.mtime):
            self._picture.feed(event)
        told = conclude(self._reading, Beside(model_folder=os.devnull))
        if self._picture.shows_a_start or told.state == "failed":
            self.starts.append(self._start(told))

    def _start(self, told: Diagnosis) -> Start:
        picture = self._picture
        timed = self._first_at is not None
        first, last = self._first_at, self._last_at or self.mtime
        if first is not None and last < first:
            last = first
        state = _state(picture, told)
        picture.end(last)
        traced, self._traced = self._begun_by or self._traced, None
        sure = told.state == "failed" and told.category not in (None, "unknown")
        hung = told.state != "failed" and told.category not in _NO_FINDING
        return Start(
            path=self.path,
            key=self._key(),
            engine=self.engine,
            started_at=first if picture.settings or state == "failed" else None,
            ready_at=picture.ready_at if timed else None,
            last_at=last,
            timed=timed,
            state=state,
            settings=picture.settings,
            phases=list(picture.phases.values()) if timed else [],
            sizes=list(picture.sizes.values()),
            timings=picture.timings,
            throughput=picture.throughput,
            warnings=[*picture.warnings, *self._caveats()],
            failure=_failure(picture, told, state, sure),
            cause=told.to_json() if state == "failed" or hung else None,
            port=picture.port or _port(picture.settings),
            line=self._first_line,
            traced=traced,
        )

    def _caveats(self) -> list[str]:
        picture = self._picture
        cut = not picture.settings and bool(picture.ready_at or "load_weights" in picture.phases)
        return [*([_CUT] if cut else []), *([] if self._first_at else [_UNTIMED])]

    def _key(self) -> str:
        """The same for a copy and for a log that has grown; by the path where the log draws no seed of its own."""
        settings = self._picture.settings
        told: list[Any] = [self.engine, settings, self._set_at.isoformat() if self._set_at else None]
        if self._set_at is None or not isinstance(settings.get("random_seed"), int):
            told += [self.path, len(self.starts), self._first_at.isoformat() if self._first_at else None]
        return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()


def _state(picture: Picture, told: Diagnosis) -> str:
    """How the log says that it ended; a log that only stops leaves that open."""
    if told.state == "failed" or picture.port_taken:
        return "failed"
    if told.state == "exited" or picture.stopping:
        return "exited"
    return "failed" if picture.failure and told.state != "ready" else "lost"


def _failure(picture: Picture, told: Diagnosis, state: str, sure: bool) -> str | None:
    if state != "failed":
        return None
    return redact_text(told.summary if sure or not picture.failure else picture.failure)


def _port(settings: dict[str, Any]) -> int | None:
    port = settings.get("port")
    return port if isinstance(port, int) and not isinstance(port, bool) and 0 < port < 65536 else None


def quoted(cause: dict[str, Any], most: int = 5) -> Iterator[str]:
    """The lines of evidence of a diagnosis, as a finding names them."""
    for one in cause.get("evidence", ())[:most]:
        yield f"log line {one['line']}: {one['text']}" if one["line"] else one["text"]
