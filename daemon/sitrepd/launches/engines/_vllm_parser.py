"""vLLM's log as events: records with a level, a day without a year and a source line, behind the name of a process."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from sitrepd.launches.engines import _sglang_lines as lines
from sitrepd.launches.engines import _vllm_lines as vllm
from sitrepd.launches.engines import base as e
from sitrepd.launches.engines._failures import FailureWatch
from sitrepd.launches.engines._lines import Bar, find_bar, gib_to_bytes, plain
from sitrepd.launches.engines._phases import PhaseTracker, role_of
from sitrepd.launches.engines._tracebacks import TRACEBACK
from sitrepd.redact import redact_text

_READY = "Application startup complete."
_MOST_WARNINGS = 200
_Handler = Callable[["VllmParser", "re.Match[str]", str, datetime], list[e.LogEvent]]


class VllmParser:
    """See `LogParser`; `TP0` is the rank of `Worker_TP0`, while the engine's core and the API server have none."""

    def __init__(self, state: dict[str, Any] | None = None, tz: tzinfo | None = None) -> None:
        self._tz = tz
        self._restore(state or {})

    def _restore(self, state: dict[str, Any]) -> None:
        self._phases = PhaseTracker(state.get("phases"))
        self._failures = FailureWatch(state.get("failures"))
        self._warned: list[str] = list(state.get("warned", []))
        self._asked: dict[str, Any] = dict(state.get("asked", {}))
        self._eager: bool = state.get("eager", False)
        self._ready: bool = state.get("ready", False)
        self._port_taken: bool = state.get("port_taken", False)

    def state(self) -> dict[str, Any]:
        return {
            "phases": self._phases.state(),
            "failures": self._failures.state(),
            "warned": list(self._warned),
            "asked": dict(self._asked),
            "eager": self._eager,
            "ready": self._ready,
            "port_taken": self._port_taken,
        }

    def feed(self, line: str, seen_at: datetime) -> list[e.LogEvent]:
        record = vllm.record(plain(line))
        if " HTTP/1." in record.message:
            return []
        at = self._time(record, seen_at)
        events = [] if self._phases.seen("starting") else self._phases.begin("starting", "", at)
        return events + self._record(record, at)

    def peek(self, partial: str, seen_at: datetime) -> list[e.LogEvent]:
        del seen_at
        found = self._find_progress(vllm.record(plain(partial)).message)
        return self._phases.progress(*found) if found else []

    def finish(self, seen_at: datetime) -> list[e.LogEvent]:
        del seen_at
        return self._failures.finish()

    def _time(self, record: vllm.Record, seen_at: datetime) -> datetime:
        """The day has no year: the one that makes it the latest day that is not to come."""
        if not record.day:
            return seen_at
        for year in (seen_at.year + 1, seen_at.year, seen_at.year - 1):
            try:
                told = datetime.fromisoformat(f"{year}-{record.day}")
                at = (told if self._tz is None else told.replace(tzinfo=self._tz)).astimezone(UTC)
            except ValueError:
                continue
            if at <= seen_at + timedelta(days=1):
                return at
        return seen_at

    def _record(self, record: vllm.Record, at: datetime) -> list[e.LogEvent]:
        message = record.message
        bar = None if record.level else find_bar(message)
        if bar is not None:
            glued = vllm.glued_record(message)
            events = self._progress(message[:glued] if glued else message)
            return events + (self.feed(message[glued:], at) if glued else [])
        if not record.level or record.level in ("ERROR", "CRITICAL"):
            failed = self._failed(record, at)
            if failed is not None:
                return failed
        elif self._failures.busy:
            return self._failures.record_begins() + self._message(record, at)
        return self._message(record, at) if message else []

    def _message(self, record: vllm.Record, at: datetime) -> list[e.LogEvent]:
        message, rank = record.message, record.rank
        for pattern, handler in _HANDLERS:
            found = pattern.match(message)
            if found:
                return handler(self, found, rank, at)
        figures = vllm.figures(message, at)
        if figures is not None:
            return [figures]
        if message.startswith("INFO:"):
            return self._uvicorn(message, at)
        return self._warning(record, at) if record.level == "WARNING" else []

    # --- failures --------------------------------------------------------------------------------------------

    def _failed(self, record: vllm.Record, at: datetime) -> list[e.LogEvent] | None:
        """Tracebacks come bare, behind the name of a process, or with each of their lines a record of its own."""
        message, phase = record.message, self._phases.current(record.rank)
        if "ddress already in use" in message:
            self._port_taken = True
            return [e.PortTaken(at=at, text=message.strip()[:500], port=lines.taken_port(message))]
        where = vllm.announces_failure(message) if record.level else ""
        if where:
            return self._failures.announce(where, message, record.rank, at, phase)
        # Each process on the way out prints a traceback of its own behind the one that counts.
        another = not record.level and message.startswith((TRACEBACK, "Process ")) and self._failures.busy
        closed = self._failures.record_begins() if another else []
        taken = self._failures.take(message, at, phase)
        if taken is None:
            taken = self._failures.judge(message, record.rank, at, phase)
        return closed + taken if taken is not None else closed or None

    # --- bars ------------------------------------------------------------------------------------------------

    def _find_progress(self, text: str) -> tuple[str, Bar, str] | None:
        bar = find_bar(text)
        names, unit = vllm.bar_phases(bar) if bar else ((), "")
        name = self._phases.open_for_bar(names)
        return (name, bar, unit) if name and bar else None

    def _progress(self, text: str) -> list[e.LogEvent]:
        found = self._find_progress(text)
        if found is None:
            return []
        events = self._phases.progress(*found)
        self._phases.remember(found[0], found[1])
        return events

    # --- phases ----------------------------------------------------------------------------------------------

    def _begin(self, name: str, rank: str, at: datetime) -> list[e.LogEvent]:
        self._failures.moved_on()
        return [] if self._ready else self._phases.begin(name, rank, at)

    def _args(self, found: re.Match[str], rank: str, at: datetime) -> list[e.LogEvent]:
        again = [e.Restarted(at=at)] if self._ready or self._failures.over or self._phases.seen("load_weights") else []
        if again:
            self._restore({})
        self._asked = vllm.settings(found[1])
        return [*again, *self._phases.begin("starting", "", at)] if again else []

    def _config(self, found: re.Match[str], rank: str, at: datetime) -> list[e.LogEvent]:
        values = {**self._asked, **vllm.settings(f"Config({found['config']})")}
        self._eager = values.get("enforce_eager") is True
        version = [e.Described(at=at, rank=rank, name="engine_version", value=found["version"])]
        return [*version, e.Settings(at=at, rank=rank, values=values)]

    def _init(self, found: re.Match[str], rank: str, at: datetime) -> list[e.LogEvent]:
        return [] if self._phases.seen("load_weights") else self._begin("dist_init", rank, at)

    def _loads(self, found: re.Match[str], rank: str, at: datetime) -> list[e.LogEvent]:
        return self._begin("load_weights", rank, at)

    def _loads_draft(self, found: re.Match[str], rank: str, at: datetime) -> list[e.LogEvent]:
        return self._begin("load_draft_weights", rank, at)

    def _loaded(self, found: re.Match[str], rank: str, at: datetime) -> list[e.LogEvent]:
        """Weights are followed by a trial run that compiles, unless that is turned off."""
        seconds = float(found["seconds"]) if found["seconds"] else None
        events: list[e.LogEvent] = []
        for name in ("load_draft_weights", "load_weights"):
            if self._phases.is_open(name, rank) or (name == "load_weights" and not self._phases.begun(name, rank)):
                events += self._phases.end(name, rank, at, seconds if name == "load_weights" else None)
        events.append(_sized("weight_bytes", gib_to_bytes(found["gib"]), "bytes", "load_weights", rank, at))
        return events + self._begin("kv_cache" if self._eager else "compile_kernels", rank, at)

    def _compiles(self, found: re.Match[str], rank: str, at: datetime) -> list[e.LogEvent]:
        seconds = float(found["seconds"]) if found["seconds"] else None
        told = e.Compiled(at=at, rank=rank, what=found["what"], seconds=seconds, after_ready=self._ready)
        return [*self._begin("compile_kernels", rank, at), told]

    def _compiled(self, found: re.Match[str], rank: str, at: datetime) -> list[e.LogEvent]:
        events = self._phases.end("compile_kernels", rank, at, float(found["seconds"]))
        return events + self._begin("kv_cache", rank, at)

    def _memory(self, found: re.Match[str], rank: str, at: datetime) -> list[e.LogEvent]:
        size = _sized("kv_cache_bytes", gib_to_bytes(found["gib"]), "bytes", "kv_cache", rank, at)
        return [*self._begin("kv_cache", rank, at), size]

    def _tokens(self, found: re.Match[str], rank: str, at: datetime) -> list[e.LogEvent]:
        """The engine's core says it for all ranks."""
        tokens = int(found["tokens"].replace(",", ""))
        events = [] if self._phases.seen("kv_cache") else self._begin("kv_cache", rank, at)
        events = events + self._phases.end_all(at, before="capture_graphs")
        events.append(_sized("kv_tokens", tokens, "tokens", "kv_cache", rank, at))
        return events if self._eager else events + self._begin("capture_graphs", rank, at)

    def _captures(self, found: re.Match[str], rank: str, at: datetime) -> list[e.LogEvent]:
        return [] if self._phases.is_open("capture_graphs") else self._begin("capture_graphs", rank, at)

    def _captured(self, found: re.Match[str], rank: str, at: datetime) -> list[e.LogEvent]:
        """The phase was begun by the engine's core, and the workers end it, each for itself."""
        events = []
        if self._phases.is_open("capture_graphs") or not self._phases.seen("capture_graphs"):
            owner = "" if self._phases.is_open("capture_graphs", "") else rank
            events = self._phases.end("capture_graphs", owner, at, float(found["seconds"]))
        if found["gib"]:
            events.append(_sized("graph_bytes", gib_to_bytes(found["gib"]), "bytes", "capture_graphs", rank, at))
        return events

    def _initialised(self, found: re.Match[str], rank: str, at: datetime) -> list[e.LogEvent]:
        seconds = {"init_engine": float(found["seconds"])}
        if found["compilation"]:
            seconds["compilation"] = float(found["compilation"])
        events = self._phases.end_all(at, before="http_start")
        return [*events, *self._begin("http_start", "", at), e.Timings(at=at, rank=rank, seconds=seconds)]

    # --- HTTP ------------------------------------------------------------------------------------------------

    def _serves(self, found: re.Match[str], rank: str, at: datetime) -> list[e.LogEvent]:
        events = self._phases.end_all(at, before="http_start") + self._begin("http_start", "", at)
        return [*events, e.Listening(at=at, host=found["host"].strip("[]"), port=int(found["port"]))]

    def _uvicorn(self, message: str, at: datetime) -> list[e.LogEvent]:
        text = message.removeprefix("INFO:").strip()
        if text.startswith("Started server process"):
            pid = text.partition("[")[2].rstrip("]")
            return [e.Listening(at=at, pid=int(pid))] if pid.isdigit() else []
        bound = lines.bound_to(text) if "running on" in text else None
        if bound is not None:
            return [e.Listening(at=at, host=bound[0], port=bound[1])]
        if text != _READY or self._ready:
            return []
        self._failures.moved_on()
        ended = self._phases.end_all(at)
        self._ready = True
        return [*ended, e.Ready(at=at, text=_READY, suspect=self._port_taken)]

    def _warning(self, record: vllm.Record, at: datetime) -> list[e.LogEvent]:
        what = "" if self._ready else lines.warning(record.message) or vllm.warning(record.message)
        text = redact_text(record.message.strip()[:1000])
        key = f"{what}: {text[:200]}"
        if not what or key in self._warned or len(self._warned) >= _MOST_WARNINGS:
            return []
        self._warned.append(key)
        return [e.Warned(at=at, rank=record.rank, what=what, text=text)]


def _sized(name: str, value: int, unit: str, phase: str, rank: str, at: datetime) -> e.Sized:
    return e.Sized(at=at, rank=rank, role=role_of(phase), name=name, value=value, unit=unit, phase=phase)


_SECONDS = r"(?P<seconds>\d+(?:\.\d+)?)"
_HANDLERS: tuple[tuple[re.Pattern[str], _Handler], ...] = (
    (re.compile(r"(?:non-default args|args): (.*)"), VllmParser._args),
    (
        re.compile(r"Initializing a V\d LLM engine \((?P<version>[^)]*)\) with config: (?P<config>.*)", re.DOTALL),
        VllmParser._config,
    ),
    (re.compile(r"world_size=\d+ rank=\d+|vLLM is using nccl==|Found nccl from library"), VllmParser._init),
    (re.compile(r"Starting to load model "), VllmParser._loads),
    (re.compile(r"Loading drafter model"), VllmParser._loads_draft),
    (
        re.compile(
            rf"(?:Model loading|Loading model weights) took (?P<gib>[\d.]+) ?Gi?B(?: memory)?(?: and {_SECONDS})?"
        ),
        VllmParser._loaded,
    ),
    (re.compile(rf"(?P<what>Dynamo bytecode transform) time: {_SECONDS}"), VllmParser._compiles),
    (re.compile(rf"(?P<what>Compiling a graph for .*?) takes {_SECONDS}"), VllmParser._compiles),
    (re.compile(rf"(?P<what>Directly load the compiled graph.*?) took {_SECONDS}"), VllmParser._compiles),
    (re.compile(rf"torch\.compile (?:takes|took|and initial profiling run took) {_SECONDS}"), VllmParser._compiled),
    (re.compile(r"Available KV cache memory: (?P<gib>-?[\d.]+) GiB"), VllmParser._memory),
    (re.compile(r"GPU KV cache size: (?P<tokens>[\d,]+) tokens"), VllmParser._tokens),
    (re.compile(r"Capturing (?:the model for )?(?:CUDA|cuda) ?graph"), VllmParser._captures),
    (re.compile(rf"Graph capturing finished in {_SECONDS} secs?(?:, took (?P<gib>[\d.]+) GiB)?"), VllmParser._captured),
    (
        re.compile(rf"init engine \(.*?\) took {_SECONDS} ?s\w*(?: \(compilation: (?P<compilation>[\d.]+) s\))?"),
        VllmParser._initialised,
    ),
    (
        re.compile(r"Starting vLLM API server(?: \d+)? on https?://(?P<host>\[[^\]]+\]|[^:/\s]+):(?P<port>\d+)"),
        VllmParser._serves,
    ),
)
