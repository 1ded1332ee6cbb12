"""What a stored value of a GPU takes, and how soon a long time is drawn from what is stored."""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

from sqlmodel import Session
from tests.daemons import application, seed
from tests.perf.measure import Figure, benchmark, median

from sitrepd.hardware import blocks, models, newest, past_routes, sealing, series
from sitrepd.hardware.hosts import machine_key
from sitrepd.hardware.older import PERIODS_A_CHUNK, stored
from sitrepd.hardware.quantities import HOURS, KINDS, MINUTES
from sitrepd.hardware.service import Hardware
from sitrepd.storage.engine import make_reader, make_writer

RECORDED = Path(__file__).parents[1] / "data" / "h200-series.jsonl"
_NAMES = {
    "gpu": "utilization", "memutil": "memory_utilization", "used": "memory_used_bytes", "temp": "temperature_c",
    "sm": "sm_clock_mhz", "memclk": "memory_clock_mhz", "reasons": "clock_reasons",
}  # fmt: skip
# As many machines as make what a database takes by whole pages of no account.
_COPIES = 64
_NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
_GPUS, _POINTS, _RUNS = 8, 600, 15
_NETDATA = 0.6
Row = dict[str, Any]


@contextmanager
def database(folder: Path) -> Iterator[Callable[[], Session]]:
    """An empty store with a host, spoken to as the daemon's writer does."""
    seed(folder)
    engine = make_writer(folder / "sitrep.db")
    try:
        yield lambda: Session(engine)
    finally:
        engine.dispose()


def recorded() -> list[Row]:
    """Three starts of a server and their benchmarks on one H200, as it was asked twice a second."""
    told = [json.loads(line) for line in RECORDED.read_text().splitlines()]
    return [
        {"at": datetime.fromtimestamp(one["t"], UTC), "power_w": one["power"] / 1000}
        | {name: one[ours] for ours, name in _NAMES.items()}
        for one in told
    ]


def noisy(seconds: int, gpu: int = 0) -> list[Row]:
    """A GPU under a load that trembles in all that can: nothing repeats."""
    rng, heat, rows = random.Random(gpu), 60.0, []
    for second in range(seconds):
        busy = rng.random() < 0.98
        heat += rng.gauss(0.02 * (62 - heat), 0.3)
        rows.append(
            {
                "at": _NOW - timedelta(seconds=seconds - second),
                "utilization": min(100, max(0, round(rng.gauss(92, 6)))) if busy else 0,
                "memory_utilization": min(100, max(0, round(rng.gauss(48, 8)))) if busy else 0,
                "memory_used_bytes": 88_000_000_000 + rng.randrange(64) * 2_097_152,
                "memory_reserved_bytes": 671_088_640,
                "power_w": round(rng.gauss(420, 15), 3),
                "temperature_c": round(heat),
                "memory_temperature_c": round(heat + 6),
                "sm_clock_mhz": 1980 - 15 * rng.randrange(12),
                "memory_clock_mhz": 12481,
                "clock_reasons": 4 if rng.random() < 0.2 else 0,
                "ecc_corrected": 0,
                "ecc_uncorrected": 0,
                "remapped_rows": 0,
                "pcie_replays": 0,
            }
        )
    return rows


def bytes_per_value(rows: Sequence[Row], most: int) -> float:
    """What the file of a database grows by, keys and free space and tiers included, by values that were told."""
    values = _COPIES * sum(name in KINDS for row in rows for name in row)
    with tempfile.TemporaryDirectory() as folder, database(Path(folder)) as session, session() as db:
        db.add_all([models.Host(name=f"box{copy}", provenance="observed") for copy in range(_COPIES)])
        db.commit()
        before = _pages(db)
        for host in range(1, _COPIES + 1):
            newest.add(db, [{"host_id": host, "gpu": 0, **row} for row in rows])
            _seal(db, host, 0, most)
        db.commit()
        used = _pages(db) - before
    return used / values


def _pages(db: Session) -> int:
    pragma = {
        name: db.connection().exec_driver_sql(f"PRAGMA {name}").scalar_one()
        for name in ("page_count", "freelist_count", "page_size")
    }
    return int((pragma["page_count"] - pragma["freelist_count"]) * pragma["page_size"])


def _seal(db: Session, host: int, gpu: int, most: int) -> None:
    while (sealed := sealing.seal(db, host, gpu, most)) is not None:
        sealing.write(db, sealed)


@benchmark("series_bytes_per_value", "series_bytes_per_value_noisy")
def size() -> Iterator[Figure]:
    """The recorded series in one chunk, as the daemon would seal it, and an hour that never repeats itself."""
    peer = f"Netdata's published {_NETDATA}"
    figure = bytes_per_value(recorded(), sealing.WORTH)
    note = f"{len(recorded())} samples of an H200, minutes and hours included"
    yield Figure("series_bytes_per_value", figure, "bytes", peer, figure / _NETDATA, 0.6, note)
    figure = bytes_per_value(noisy(3600), sealing.WORTH)
    yield Figure("series_bytes_per_value_noisy", figure, "bytes", peer, figure / _NETDATA, note="an hour of noise")


@benchmark("series_query_ms", "series_query_30d_ms", "gpus_past_ms", "gpus_past_30d_ms")
def query() -> Iterator[Figure]:
    """Eight GPUs in 600 points: one metric of a day sampled each second, and of thirty; what their page asks for."""
    with tempfile.TemporaryDirectory() as name, database(Path(name)) as session:
        with session() as db:
            db.add(models.Host(name="box", machine=machine_key(), provenance="observed"))
            db.commit()
            for gpu in range(_GPUS):
                _a_month(db, gpu, noisy(86_400, gpu))
                db.commit()
        engine = make_reader(Path(name) / "sitrep.db")
        with Session(engine) as db:
            for figure, days, limit in (("series_query_ms", 1, 20), ("series_query_30d_ms", 30, 60)):
                began = time.process_time()
                times = [_asked(db, days) for _ in range(_RUNS)]
                busy = 1000 * (time.process_time() - began) / _RUNS
                note = f"{_GPUS} GPUs, {days} d at 1 Hz, {_POINTS} points; {busy:.1f} ms of them on the processor"
                yield Figure(figure, median(times), "ms", limit=limit, note=note)
        engine.dispose()
        yield from _pages(Path(name))


def _pages(folder: Path) -> Iterator[Figure]:
    """The answer to the page's charts, over the application's own routes; a daemon that looks at nothing else."""

    async def nothing(_: Hardware) -> None:
        await asyncio.Event().wait()

    with (
        patch.object(Hardware, "run", nothing),
        patch.object(past_routes, "utc_now", lambda: _NOW),
        application(folder) as client,
    ):
        for figure, days in (("gpus_past_ms", 1), ("gpus_past_30d_ms", 30)):
            query = {"length_s": 86_400 * days, "points": _POINTS}
            times = []
            for _ in range(_RUNS):
                began = time.perf_counter()
                answer = client.get("/api/v1/gpus/past", params=query)
                times.append(1000 * (time.perf_counter() - began))
                told = answer.json()["gpus"]
                assert len(told) == _GPUS
                assert len(told[0]["metrics"]["power_w"]) > 200
            note = f"{_GPUS} GPUs, {days} d, five metrics; {len(answer.content) / 1000:.0f} kB"
            yield Figure(figure, median(times), "ms", note=note)


def _a_month(db: Session, gpu: int, day: Sequence[Row]) -> None:
    """The last day as the daemon leaves it, rows and chunks; before it that day's minutes and hours, thirty times."""
    newest.add(db, [{"host_id": 1, "gpu": gpu, **row} for row in day])
    while (rows := dict(sealing.due(db, 1, _NOW)).get(gpu)) is not None:
        sealed = sealing.seal(db, 1, gpu, rows)
        assert sealed is not None
        sealing.write(db, sealed)
    for tier in (MINUTES, HOURS):
        _repeat(db, gpu, tier, 86_400 // tier)


def _repeat(db: Session, gpu: int, tier: int, a_day: int) -> None:
    span = PERIODS_A_CHUNK * tier * 1000
    chunks: dict[int, blocks.Periods] = {}
    last = int(_NOW.timestamp()) * 1000 // span
    found = [stored(db, 1, gpu, tier, place * span) for place in range(last - 86_400_000 // span - 1, last + 1)]
    day = {number: period for one in found if one is not None for number, period in blocks.unpack_periods(one).items()}
    for back in range(1, 30):
        for number, period in day.items():
            if number - a_day * back not in day:
                place = (number - a_day * back) // PERIODS_A_CHUNK
                chunks.setdefault(place, {})[number - a_day * back] = period
    for place, periods in chunks.items():
        before = stored(db, 1, gpu, tier, place * span)
        told = periods if before is None else periods | blocks.unpack_periods(before)
        chunk = sealing.Chunk(tier, place * span, place * span + span - 1, len(told), blocks.pack_periods(told))
        sealing.put(db, 1, gpu, chunk)


def _asked(db: Session, days: int) -> float:
    """Milliseconds for all GPUs, as the route of the samples reads them."""
    began, since = time.perf_counter(), _NOW - timedelta(days=days)
    for gpu in range(_GPUS):
        found = series.columns(db, 1, gpu, since, _NOW, _POINTS, ("power_w",)).with_gaps(86_400 * days / _POINTS, 25)
        assert len(found.curves["power_w"][1]) > 0.8 * _POINTS
    return 1000 * (time.perf_counter() - began)
