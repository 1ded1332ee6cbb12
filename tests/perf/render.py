"""How long a checkpoint of a long session takes, from rows to text."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.perf.measure import Figure, benchmark, median
from tests.perf.sessions import long_session

from sitrepd import portable
from sitrepd.checkpoints.collect import collect
from sitrepd.checkpoints.render import render
from sitrepd.checkpoints.service import model
from sitrepd.checkpoints.templates import Templates
from sitrepd.clock import iso, utc_now
from sitrepd.settings import load_settings
from sitrepd.slices import load_registry
from sitrepd.storage.store import Store

_RUNS = 15


def measured(name: str, limit: float, *, messages: int, launches: int, benchmarks: int, findings: int) -> Figure:
    """Milliseconds from rows to the text of a standard checkpoint, the median of several runs after one that warms."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(load_settings(data_dir=Path(folder), port=0))
        registry = load_registry()
        file = portable.parse(long_session(messages, launches, benchmarks, findings), registry, "long.jsonl")
        store.write(lambda db: portable.store(db, registry, file, "long.jsonl", "told:perf"))
        templates = Templates(None)
        times: list[float] = []
        for _ in range(_RUNS + 1):
            started = time.perf_counter()
            with store.read() as db:
                collected = collect(db, registry, 1, utc_now())
            text = render(model(1, iso(utc_now()), collected, "asked", None), "md", 9000, templates)
            times.append(1000 * (time.perf_counter() - started))
            assert len(text) <= 9000
        store.close()
    note = f"{messages} messages, {launches} launches, {benchmarks} benchmarks, {findings} findings"
    return Figure(name, median(times[1:]), "ms", limit=limit, note=f"{note}; first {times[0]:.0f} ms")


@benchmark("checkpoint_render_ms")
def checkpoint() -> Iterator[Figure]:
    """The session of the promise."""
    yield measured("checkpoint_render_ms", 100, messages=5000, launches=300, benchmarks=1000, findings=300)


@benchmark("checkpoint_render_10x_ms")
def ten_times() -> Iterator[Figure]:
    """Ten times as much."""
    yield measured("checkpoint_render_10x_ms", 75, messages=50000, launches=3000, benchmarks=10000, findings=3000)
