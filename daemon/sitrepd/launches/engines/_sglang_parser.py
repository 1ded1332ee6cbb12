"""SGLang's log as events: which message means what, and the little that has to be remembered between them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, tzinfo
from typing import Any

from sitrepd.launches.engines import _sglang_lines as lines
from sitrepd.launches.engines._failures import FailureWatch
from sitrepd.launches.engines._lines import STAMP, Bar, Clock, find_bar, plain
from sitrepd.launches.engines._phases import PhaseTracker, role_of
from sitrepd.launches.engines._settings import parse_server_args
from sitrepd.launches.engines.base import (
    PHASE_ORDER,
    Compiled,
    Described,
    Listening,
    LogEvent,
    PortTaken,
    Ready,
    Restarted,
    Settings,
    Sized,
    Timings,
    Warned,
)
from sitrepd.redact import redact_text

_READY = "The server is fired up and ready to roll!"
_TRITON = re.compile(r"Triton kernel '([^']*)' took (\d+(?:\.\d+)?) s to compile")
_JIT = re.compile(r"(?:Loading JIT ops|Finished loading JIT ops|Entering (DeepGEMM) JIT)[:\s]*([\w.-]*)")
_AITER = re.compile(r"(start|finish) build \[([\w.-]+)\](?:.*?cost (\d+(?:\.\d+)?) ?s)?")
_NO_DRAFT = (None, "", "NGRAM")
_OVERLAP = frozenset({"load_weights"})
_MAX_WARNINGS = 200
_COMPILED_S, _TIMES_LONGER = 5.0, 4.0

_Handler = Callable[["SglangParser", str, str, datetime], list[LogEvent]]


class SglangParser:
    """See `LogParser`."""

    def __init__(self, state: dict[str, Any] | None = None, tz: tzinfo | None = None) -> None:
        self._clock = Clock(tz)
        self._restore(state or {})

    def _restore(self, state: dict[str, Any]) -> None:
        self._phases = PhaseTracker(state.get("phases"))
        self._failures = FailureWatch(state.get("failures"))
        self._ranks: dict[str, dict[str, int]] = {name: dict(seen) for name, seen in state.get("ranks", {}).items()}
        self._warned: list[str] = list(state.get("warned", []))
        self._draft_expected: bool | None = state.get("draft_expected")
        self._overlap: bool = state.get("overlap", False)
        self._port_taken: bool = state.get("port_taken", False)
        self._ready: bool = state.get("ready", False)
        self._first_s: dict[str, list[float]] = {name: list(told) for name, told in state.get("first_s", {}).items()}

    def state(self) -> dict[str, Any]:
        return {
            "phases": self._phases.state(),
            "failures": self._failures.state(),
            "ranks": {name: dict(seen) for name, seen in self._ranks.items()},
            "warned": list(self._warned),
            "draft_expected": self._draft_expected,
            "overlap": self._overlap,
            "port_taken": self._port_taken,
            "ready": self._ready,
            "first_s": {name: list(told) for name, told in self._first_s.items()},
        }

    def feed(self, line: str, seen_at: datetime) -> list[LogEvent]:
        line = plain(line)
        stamp = STAMP.match(line)
        if stamp is None:
            return self._unstamped(line, seen_at)
        if " HTTP/1." in line:
            return []
        at = self._clock.read(stamp[1], seen_at)
        message = line[stamp.end() :]
        events = self._failures.record_begins() if self._failures.busy else []
        if not self._phases.seen("starting"):
            events = events + self._phases.begin("starting", "", at)
        return events + self._message(message, stamp[2].strip(), at)

    def peek(self, partial: str, seen_at: datetime) -> list[LogEvent]:
        del seen_at
        found = self._find_progress(plain(partial))
        return self._phases.progress(*found) if found else []

    def finish(self, seen_at: datetime) -> list[LogEvent]:
        del seen_at
        return self._failures.finish()

    def _unstamped(self, line: str, seen_at: datetime) -> list[LogEvent]:
        """Bars, tracebacks, and the lines of others; a record may be glued behind a bar."""
        bar = find_bar(line)
        if bar is not None:
            glued = STAMP.search(line)
            events = self._progress(line[: glued.start()] if glued else line)
            return events + (self.feed(line[glued.start() :], seen_at) if glued else [])
        taken = self._failures.take(line, seen_at, self._phases.current())
        if taken is not None:
            return taken + self._port(line, "", seen_at)
        glued = STAMP.search(line)
        if glued:
            return self.feed(line[glued.start() :], seen_at)
        return self._message(line, "", seen_at) if line else []

    def _message(self, message: str, rank: str, at: datetime) -> list[LogEvent]:
        first = message.partition(" ")[0].partition("=")[0]
        handler = _HANDLERS.get(first)
        events = handler(self, message, rank, at) if handler else []
        return events or self._anything(message, rank, at)

    def _anything(self, message: str, rank: str, at: datetime) -> list[LogEvent]:
        """Messages that are known by something inside them."""
        if "KV " in message and ("KV Cache is alloc" in message or "KV cache alloc" in message):
            return self._kv_cache(message, rank, at)
        if lines.cannot_listen(message):
            return self._port(message, rank, at)
        failed = self._failures.judge(message, rank, at, self._phases.current(rank))
        if failed is not None:
            return failed
        if "JIT" in message or "build [" in message:
            return self._jit(message, rank, at)
        what = "" if self._ready and "Health" not in message else lines.warning(message)
        return self._warn(what, message, rank, at) if what else []

    # --- bars ------------------------------------------------------------------------------------------------

    def _find_progress(self, text: str) -> tuple[str, Bar, str, str] | None:
        bar = find_bar(text)
        if bar is None:
            return None
        names, unit = lines.bar_phases(bar)
        name = self._phases.open_for_bar(names)
        return (name, bar, unit, lines.bar_detail(bar)) if name else None

    def _progress(self, text: str) -> list[LogEvent]:
        events: list[LogEvent] = []
        found = self._find_progress(text)
        if found is None:
            return events
        name, bar, *_ = found
        events = self._phases.progress(*found)
        self._phases.remember(name, bar)
        return events + self._first_steps(name, bar)

    def _first_steps(self, name: str, bar: Bar) -> list[LogEvent]:
        """A first graph that took long beside the next ones was compiled, in silence: a phase told afterwards."""
        if not name.startswith("capture") or bar.done == 0:
            self._first_s.pop(name, None)
            return []
        if name not in self._first_s:
            self._first_s[name] = [bar.done, bar.elapsed_s]
            return []
        done, first_s = self._first_s[name]
        if bar.done <= done or first_s < 0:
            return []
        self._first_s[name] = [done, -1.0]
        if first_s < _COMPILED_S or first_s / done < _TIMES_LONGER * (bar.elapsed_s - first_s) / (bar.done - done):
            return []
        return self._phases.inside("compile_kernels", name, first_s)

    # --- phases ----------------------------------------------------------------------------------------------

    def _begin(self, name: str, rank: str, at: datetime) -> list[LogEvent]:
        self._failures.moved_on()
        return self._phases.begin(name, rank, at, _OVERLAP if self._overlap else frozenset())

    def _of(self, rank: str) -> dict[str, int]:
        return self._ranks.setdefault(rank, {"loads": 0, "loaded": 0, "pools": 0, "kv_bytes": 0, "draft": 0})

    def _init(self, message: str, rank: str, at: datetime) -> list[LogEvent]:
        """Up to 0.5.20 the draft worker repeats it in no time, which is no phase of the launch."""
        if not message.startswith(("Init torch distributed", "Init parallel")):
            return []
        if self._phases.furthest(rank) > PHASE_ORDER["dist_init"]:
            self._of(rank)["draft"] = 1
            return self._begin_kv_no_more(rank, at)
        if " begin" in message:
            return self._begin("dist_init", rank, at)
        return self._phases.end("dist_init", rank, at, lines.elapsed_s(message))

    def _begin_kv_no_more(self, rank: str, at: datetime) -> list[LogEvent]:
        return self._phases.end("kv_cache", rank, at) if self._phases.is_open("kv_cache", rank) else []

    def _load(self, message: str, rank: str, at: datetime) -> list[LogEvent]:
        if message.startswith("Load weight begin"):
            return self._load_begins(message, rank, at)
        return self._load_ends(message, rank, at) if message.startswith("Load weight end") else []

    def _load_begins(self, message: str, rank: str, at: datetime) -> list[LogEvent]:
        seen = self._of(rank)
        name = "load_draft_weights" if seen["loads"] or seen["draft"] else "load_weights"
        seen["loads"] += 1
        events = self._begin(name, rank, at) + self._available(message, rank, at, name)
        free = lines.available_bytes(message) if name == "load_weights" else None
        return events if free is None else [*events, _sized("free_bytes", free, "bytes", name, rank, at)]

    def _load_ends(self, message: str, rank: str, at: datetime) -> list[LogEvent]:
        seen = self._of(rank)
        name = self._loaded(message, rank, seen)
        words = lines.words(message)
        events = self._phases.end(name, rank, at, lines.elapsed_s(message))
        seen["loaded"] += 1
        used = lines.used_bytes(message)
        if used is not None:
            events.append(_sized("weight_bytes", max(used, 0), "bytes", name, rank, at))
        events += self._available(message, rank, at, name)
        for word, meaning in (("type", "model_class"), ("quant", "quantization")):
            if word in words:
                events.append(_described(meaning, words[word], name, rank, at))
        return events + self._kv_begins(name, rank, at)

    def _loaded(self, message: str, rank: str, seen: dict[str, int]) -> str:
        if "Committed real weights" in message:
            return "load_weights"
        for name in reversed(lines.LOAD_PHASES):
            if self._phases.is_open(name, rank):
                return name
        return "load_draft_weights" if seen["loaded"] or seen["draft"] else "load_weights"

    def _kv_begins(self, loaded: str, rank: str, at: datetime) -> list[LogEvent]:
        """The KV cache announces itself only when it is there; it begins when nothing else is left to load."""
        seen = self._of(rank)
        if self._overlap or (loaded == "load_weights" and self._draft_expected is not False):
            return []
        return self._begin("draft_kv_cache" if seen["pools"] else "kv_cache", rank, at)

    def _kv_cache(self, message: str, rank: str, at: datetime) -> list[LogEvent]:
        seen = self._of(rank)
        late = message.startswith("Post-capture")
        name = "draft_kv_cache" if "draft KV" in message or (seen["pools"] and not late) else "kv_cache"
        events = self._ensure_kv(name, rank, at)
        tokens, size, dtype = lines.kv_cache(message)
        seen["kv_bytes"] = size + (0 if late else seen["kv_bytes"])
        if tokens is not None:
            events.append(_sized("kv_tokens", tokens, "tokens", name, rank, at))
            events.append(_sized("kv_cache_bytes", seen["kv_bytes"], "bytes", name, rank, at))
        return [*events, _described("kv_dtype", dtype, name, rank, at)] if dtype else events

    def _ensure_kv(self, name: str, rank: str, at: datetime) -> list[LogEvent]:
        if self._phases.is_open(name, rank) or self._phases.begun(name, rank):
            return []
        return self._phases.begin(name, rank, self._phases.left_at(rank, at), late=True)

    def _memory(self, message: str, rank: str, at: datetime) -> list[LogEvent]:
        if not message.startswith("Memory pool end"):
            return []
        seen = self._of(rank)
        name = "draft_kv_cache" if seen["pools"] else "kv_cache"
        seen["pools"] += 1
        seen["kv_bytes"] = 0
        events = self._ensure_kv(name, rank, at) + self._phases.end(name, rank, at)
        return events + self._available(message, rank, at, name)

    def _capture(self, message: str, rank: str, at: datetime) -> list[LogEvent]:
        found = lines.capture(message)
        if found is None:
            return []
        name, edge = found
        if name == "capture_graphs" and self._of(rank)["draft"] and self._phases.begun(name, rank):
            name = "capture_draft_decode"
        if edge == "begin":
            return self._begin(name, rank, at) + self._available(message, rank, at, name)
        events = self._phases.end(name, rank, at, lines.elapsed_s(message))
        used = lines.used_bytes(message)
        if used is not None:
            events.append(_sized("graph_bytes", max(used, 0), "bytes", name, rank, at))
        return events + self._available(message, rank, at, name)

    def _autotune(self, message: str, rank: str, at: datetime) -> list[LogEvent]:
        if message.startswith("Running FlashInfer autotune"):
            began = self._begin("autotune", rank, at)
            return [*began, Compiled(at=at, rank=rank, what="FlashInfer autotune", after_ready=self._ready)]
        if message.startswith("FlashInfer autotune completed"):
            return self._phases.end("autotune", rank, at)
        return []

    def _available(self, message: str, rank: str, at: datetime, phase: str) -> list[LogEvent]:
        size = lines.available_bytes(message)
        return [] if size is None else [_sized("available_bytes", size, "bytes", phase, rank, at)]

    # --- facts -----------------------------------------------------------------------------------------------

    def _settings(self, message: str, rank: str, at: datetime) -> list[LogEvent]:
        values = parse_server_args(message.partition("=")[2])
        again = self._start_again(at) if self._ready or self._failures.over or self._phases.seen("load_weights") else []
        self._draft_expected = values.get("speculative_algorithm") not in _NO_DRAFT
        return again + ([Settings(at=at, rank=rank, values=values)] if values else [])

    def _start_again(self, at: datetime) -> list[LogEvent]:
        self._restore({})
        return [Restarted(at=at), *self._phases.begin("starting", "", at)]

    def _counts(self, message: str, rank: str, at: datetime) -> list[LogEvent]:
        self._failures.moved_on()
        return self._phases.leave(rank, at) + [
            _sized(name, value, unit, "", rank, at) for name, value, unit in lines.counts(message)
        ]

    def _timings(self, message: str, rank: str, at: datetime) -> list[LogEvent]:
        seconds = lines.timings(message) if message.startswith("Engine startup timings") else {}
        return [Timings(at=at, rank=rank, seconds=seconds)] if seconds else []

    def _batch(self, message: str, rank: str, at: datetime) -> list[LogEvent]:
        return [lines.batch(message, at, rank)] if " batch" in message[:13] else []

    def _triton(self, message: str, rank: str, at: datetime) -> list[LogEvent]:
        found = _TRITON.match(message)
        if found is None:
            return []
        return [Compiled(at=at, rank=rank, what=found[1], seconds=float(found[2]), after_ready=True)]

    def _jit(self, message: str, rank: str, at: datetime) -> list[LogEvent]:
        found = _JIT.search(message)
        if found:
            return [Compiled(at=at, rank=rank, what=found[1] or found[2] or "JIT", after_ready=self._ready)]
        found = _AITER.search(message)
        if found is None:
            return []
        seconds = float(found[3]) if found[3] else None
        return [Compiled(at=at, rank=rank, what=found[2], seconds=seconds, after_ready=self._ready)]

    def _overlap_load(self, message: str, rank: str, at: datetime) -> list[LogEvent]:
        del rank, at
        self._overlap |= message.startswith(("Prepared capture-safe model", "Started checkpoint prefetching"))
        return []

    def _warn(self, what: str, message: str, rank: str, at: datetime) -> list[LogEvent]:
        text = redact_text(message.strip()[:1000])
        key = f"{what}: {text[:200]}"
        if key in self._warned or len(self._warned) >= _MAX_WARNINGS:
            return []
        self._warned.append(key)
        return [Warned(at=at, rank=rank, what=what, text=text)]

    # --- HTTP ------------------------------------------------------------------------------------------------

    def _uvicorn(self, message: str, rank: str, at: datetime) -> list[LogEvent]:
        text = message.partition(":")[2].strip()
        if text.startswith("Started server process"):
            self._failures.moved_on()
            pid = text.partition("[")[2].rstrip("]")
            begun = self._phases.end_all(at, before="http_start") + self._begin("http_start", rank, at)
            return [*begun, Listening(at=at, rank=rank, pid=int(pid))] if pid.isdigit() else begun
        bound = lines.bound_to(text) if "running on" in text else None
        if bound is None:
            return []
        begun = self._phases.end("http_start", rank, at) + self._begin("warmup", rank, at)
        return [*begun, Listening(at=at, rank=rank, host=bound[0], port=bound[1])]

    def _fired_up(self, message: str, rank: str, at: datetime) -> list[LogEvent]:
        if not message.startswith(_READY):
            return []
        self._ready = True
        self._failures.moved_on()
        ended = self._phases.end_all(at)
        return [*ended, Ready(at=at, rank=rank, text=_READY, suspect=self._port_taken)]

    def _port(self, message: str, rank: str, at: datetime) -> list[LogEvent]:
        if not lines.cannot_listen(message):
            return []
        self._port_taken = True
        return [PortTaken(at=at, rank=rank, text=message.strip()[:500], port=lines.taken_port(message))]


def _sized(name: str, value: int, unit: str, phase: str, rank: str, at: datetime) -> Sized:
    return Sized(at=at, rank=rank, role=role_of(phase), name=name, value=value, unit=unit, phase=phase)


def _described(name: str, value: str, phase: str, rank: str, at: datetime) -> Described:
    return Described(at=at, rank=rank, role=role_of(phase), name=name, value=value)


_HANDLERS: dict[str, _Handler] = {
    "Init": SglangParser._init,
    "Load": SglangParser._load,
    "Memory": SglangParser._memory,
    "Capture": SglangParser._capture,
    "Running": SglangParser._autotune,
    "FlashInfer": SglangParser._autotune,
    "server_args": SglangParser._settings,
    "max_total_num_tokens": SglangParser._counts,
    "Engine": SglangParser._timings,
    "Decode": SglangParser._batch,
    "Prefill": SglangParser._batch,
    "Triton": SglangParser._triton,
    "Prepared": SglangParser._overlap_load,
    "Started": SglangParser._overlap_load,
    "INFO:": SglangParser._uvicorn,
    "The": SglangParser._fired_up,
}
