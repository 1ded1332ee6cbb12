"""How long a checkpoint of a long session takes, from rows to text."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.perf.measure import Figure, benchmark, median
from tests.perf.sessions import long_session

from sitrepd import facts, portable
from sitrepd.checkpoints.collect import collect
from sitrepd.checkpoints.render import render
from sitrepd.checkpoints.service import model
from sitrepd.checkpoints.templates import Templates
from sitrepd.clock import iso, utc_now
from sitrepd.facts import Scope
from sitrepd.settings import load_settings
from sitrepd.slices import load_registry
from sitrepd.storage.store import Store

_RUNS = 15


class _Long:
    """A store that holds a long session, and what makes checkpoints of it."""

    def __init__(self, folder: Path, told: bytes) -> None:
        self.registry = load_registry()
        self.store = Store(load_settings(data_dir=folder, port=0))
        file = portable.parse(told, self.registry, "long.jsonl")
        self.store.write(lambda db: portable.store(db, self.registry, file, "long.jsonl", "told:perf"))
        self.templates = Templates(None)

    def tell(self, number: int) -> None:
        """A message, a finding and a run, as between two checkpoints."""
        for word, told in (
            ("message", {"number": 1_000_000 + number, "role": "user", "text": "Go on."}),
            ("finding", {"kind": "observation", "title": f"Seen {number}", "evidence": ["B1"]}),
            (
                "benchmark",
                {"name": f"new {number}", "config": {"new": number}, "metrics": {"output_throughput": number}},
            ),
        ):
            noun = self.registry.by_word[word]
            fact = noun.create.model_validate(told)
            self.store.write(lambda db, noun=noun, fact=fact: facts.tell(db, noun, fact, self._scope()) and None)

    def change(self, number: int) -> None:
        """The note of a run that was told long ago."""
        noun = self.registry.by_word["benchmark"]
        fact = noun.update.model_validate({"note": f"looked at {number} times"})
        self.store.write(lambda db: facts.update(db, noun, facts.get(db, noun, "B7"), fact, self._scope()) and None)

    def _scope(self) -> Scope:
        return Scope(self.registry, "told:perf", 1)

    def timed(self) -> float:
        """Milliseconds from rows to the text of a standard checkpoint."""
        started = time.perf_counter()
        with self.store.read() as db:
            collected = collect(db, self.registry, 1, utc_now())
        text = render(model(1, iso(utc_now()), collected, "asked", None), "md", 9000, self.templates)
        took = 1000 * (time.perf_counter() - started)
        assert len(text) <= 9000
        return took


def measured(name: str, limit: float, *, messages: int, launches: int, benchmarks: int, findings: int) -> Figure:
    """The median of several checkpoints, each after something new; the first, and those after a change, beside it."""
    with tempfile.TemporaryDirectory() as folder:
        long = _Long(Path(folder), long_session(messages, launches, benchmarks, findings))
        times: dict[str, list[float]] = {"first": [long.timed()], "told": [], "changed": []}
        for number in range(_RUNS):
            for word, alter in (("told", long.tell), ("changed", long.change)):
                alter(number)
                times[word].append(long.timed())
        long.store.close()
    note = f"{messages} messages, {launches} launches, {benchmarks} benchmarks, {findings} findings"
    beside = f"first {times['first'][0]:.0f} ms, after an old run was changed {median(times['changed']):.0f} ms"
    return Figure(name, median(times["told"]), "ms", limit=limit, note=f"{note}; {beside}")


@benchmark("checkpoint_render_ms")
def checkpoint() -> Iterator[Figure]:
    """The session of the promise."""
    yield measured("checkpoint_render_ms", 50, messages=5000, launches=300, benchmarks=1000, findings=300)


@benchmark("checkpoint_render_10x_ms")
def ten_times() -> Iterator[Figure]:
    """Ten times as much."""
    yield measured("checkpoint_render_10x_ms", 75, messages=50000, launches=3000, benchmarks=10000, findings=3000)
