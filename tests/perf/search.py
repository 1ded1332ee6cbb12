"""How long a search takes among a hundred thousand facts."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from sqlmodel import Session
from tests.perf.measure import Figure, benchmark, median

from sitrepd.clock import utc_now
from sitrepd.history import service
from sitrepd.settings import load_settings
from sitrepd.slices import Registry, load_registry
from sitrepd.storage.search import Document, index_of
from sitrepd.storage.store import Store

_ROWS = 100_000
_WORDS = 20_000
_RUNS = 7
_KINDS = ("message", "finding", "benchmark", "launch")
# From a word that every fact has to one that few have: the slowest of them counts.
_ASKED = (
    "common", "w0", "w7", "w300", "w19000", "common w0", "w3 w40", '"common w0"', '"w1 w2"', "w1*", "w*", "nowhere",
    "common nowhere", "F77", 'w5 "w6 w7" w8*',
)  # fmt: skip


def filled(db: Session) -> None:
    """Facts of forty words each, as frequent as words are in a language."""
    chance = random.Random(7)
    vocabulary = [f"w{number}" for number in range(_WORDS)]
    weights = [1 / (number + 1) for number in range(_WORDS)]
    now = utc_now()
    by_kind: dict[str, list[Document]] = {kind: [] for kind in _KINDS}
    for number in range(1, _ROWS + 1):
        kind = _KINDS[number % len(_KINDS)]
        text = "common " + " ".join(chance.choices(vocabulary, weights, k=40))
        by_kind[kind].append(Document(kind, number, number % 5 + 1, now, None, f"{kind[0].upper()}{number}", text))
    for kind, documents in by_kind.items():
        index_of(db).replace(db, kind, (), documents)


def slowest(store: Store, registry: Registry, kinds: tuple[str, ...], session_id: int | None) -> tuple[float, str]:
    """The question that takes longest, in ms, as the median of several runs."""
    times: list[tuple[float, str]] = []
    for asked in _ASKED:
        runs = []
        for _ in range(_RUNS):
            started = time.perf_counter()
            with store.read() as db:
                service.find(db, registry, service.question(registry, asked, kinds, session_id, 20, None))
            runs.append(1000 * (time.perf_counter() - started))
        times.append((median(runs), asked))
    return max(times)


@benchmark("search_ms", "search_scoped_ms")
def search() -> Iterator[Figure]:
    """Through all that a request does but HTTP."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(load_settings(data_dir=Path(folder), port=0))
        registry = load_registry()
        store.write(filled)
        everywhere, asked = slowest(store, registry, (), None)
        scoped, within = slowest(store, registry, ("finding",), 3)
        store.close()
    note = f"{_ROWS} facts; the slowest of {len(_ASKED)} questions"
    yield Figure("search_ms", everywhere, "ms", limit=20, note=f"{note}: {asked}")
    yield Figure("search_scoped_ms", scoped, "ms", limit=20, note=f"{note}, findings of a session: {within}")
