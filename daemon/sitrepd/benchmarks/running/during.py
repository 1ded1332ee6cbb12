"""What happened to a server while it was measured: its own figures, and what speaks against the run."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from sqlmodel import Session

from sitrepd.benchmarks.metrics import Metric
from sitrepd.benchmarks.running import counters
from sitrepd.benchmarks.running.counters import Reading
from sitrepd.clock import utc_now
from sitrepd.launches.models import Launch
from sitrepd.redact import redact_text
from sitrepd.runtime import Runtime

_MOST_BYTES = 64 << 20
_MOST_MARKS = 8


@dataclass(frozen=True)
class During:
    """`metrics` are the server's own of this run, `source` says by what; `marks` are sentences."""

    metrics: tuple[Metric, ...] = ()
    marks: tuple[str, ...] = ()
    source: str | None = None


def look_back(launch: Launch, before: Reading, after: Reading) -> During:
    """By the server's counters; what they do not say, by its log. Blocks while it reads."""
    own = counters.between(before, after)
    compiled, batches = _log(launch, before)
    named = {one.name for one in own}
    more = [one for one in counters.from_lines(batches) if one.name not in named]
    sources = [*(["the server's counters"] if own else []), *(["its log"] if more else [])]
    return During((*own, *more), tuple(compiled[:_MOST_MARKS]), " and ".join(sources) or None)


def _log(launch: Launch, before: Reading) -> tuple[list[str], list[object]]:
    """(kernels that were compiled, batch lines) of what the log has grown by."""
    from sitrepd.launches.engines import engine_named
    from sitrepd.launches.engines.base import Compiled, Throughput

    try:
        parser = engine_named(launch.engine or "generic").parser({"ready": True})
    except KeyError:
        return [], []
    compiled: dict[str, float | None] = {}
    batches: list[object] = []
    now = utc_now()
    for line in _grown(launch, before):
        for event in parser.feed(line, now):
            if isinstance(event, Compiled):
                compiled[event.what] = event.seconds or compiled.get(event.what)
            elif isinstance(event, Throughput):
                batches.append(event)
    return [_compiled(what, seconds) for what, seconds in compiled.items()], batches


def _compiled(what: str, seconds: float | None) -> str:
    took = f", {seconds:g} s" if seconds else ""
    return f"a kernel was compiled during the run ({redact_text(what)}{took})"


def log_of(launch: Launch) -> str | None:
    """Where its log is."""
    return os.path.join(launch.cwd or "/", launch.log_path) if launch.log_path else None


def _grown(launch: Launch, before: Reading) -> Iterator[str]:
    path = log_of(launch)
    if path is None or before.log is None:
        return
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(before.log if size >= before.log else 0)
            text = file.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return
    yield from text.splitlines()


def throttled(runtime: Runtime, db: Session, launch: Launch, since: datetime, until: datetime) -> list[str]:
    """What held the clocks of the launch's GPUs down meanwhile and is worth a mark: a power cap is where it lasts."""
    from sitrepd.hardware import meaning

    host = launch.host_id
    return [] if host is None else meaning.throttled(db, host, list(_gpus(runtime, db, launch)), since, until)


def _gpus(runtime: Runtime, db: Session, launch: Launch) -> Iterable[int]:
    """Those that its processes hold memory of; where that cannot be seen, all of the machine."""
    from sitrepd.hardware import series

    hardware = runtime.live.get("hardware")
    own = {one.process.index for one in getattr(hardware, "processes", ()) if one.launch_id == launch.id}
    return sorted(own) or series.known_gpus(db, launch.host_id or 0)
