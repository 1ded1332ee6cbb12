from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import astuple
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import Session
from tests.daemons import application, seed
from tests.hardware.points import asked, range_of

from sitrepd.clock import utc_now
from sitrepd.hardware import models, newest, sealing, series
from sitrepd.hardware.keeping import Keeper
from sitrepd.hardware.older import RAW_SPAN_MS
from sitrepd.hardware.quantities import HOURS, KINDS, METRICS, MINUTES, RAW
from sitrepd.hardware.service import Hardware
from sitrepd.storage.engine import make_writer
from sitrepd.storage.types import to_ms

START = datetime.fromisoformat("2026-11-30T10:00:00+00:00")
Row = dict[str, Any]


def sample(second: float, gpu: int = 0, **values: Any) -> Row:
    """A row with something in every column, save the ones that are told otherwise."""
    rng = random.Random(f"{second} {gpu}")
    told = {name: rng.randrange(100) for name in KINDS}
    told |= {"power_w": rng.randrange(10**6) / 1000, "memory_used_bytes": rng.randrange(10**11), "clock_reasons": 0}
    return {"host_id": 1, "gpu": gpu, "at": START + timedelta(seconds=second), **told, **values}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Session]:
    """A store with host 1."""
    seed(tmp_path)
    engine = make_writer(tmp_path / "sitrep.db")
    with Session(engine) as session:
        session.add(models.Host(name="box", provenance="observed"))
        session.flush()
        yield session
        session.rollback()
    engine.dispose()


def seal_all(db: Session, gpu: int = 0, most: int = 700) -> None:
    """All but the newest row, as the daemon does one piece after another."""
    while True:
        rows = db.connection().exec_driver_sql("SELECT count(*) FROM gpu_sample WHERE gpu = ?", (gpu,)).scalar_one()
        if rows < 2:
            return
        sealed = sealing.seal(db, 1, gpu, min(most, rows - 1))
        assert sealed is not None
        sealing.write(db, sealed)


def expected(rows: list[Row], until: datetime, points: int, name: str) -> list[tuple[int, float, float, float, int]]:
    """(bucket, low, mean, high, samples) by the plainest means."""
    step = (until - START) / points
    found = []
    for number, inside in groupby(rows, key=lambda row: (row["at"] - START) // step):
        group = list(inside)
        values = [row[name] for row in group if row[name] is not None]
        if values:
            found.append((number, min(values), sum(values) / len(values), max(values), len(group)))
    return found


def told(points: list[series.Point]) -> list[tuple[int, float, float, float, int]]:
    return [(point.number, point.min, point.mean, point.max, point.samples) for point in points]


def same(got: list[tuple[int, float, float, float, int]], wanted: list[tuple[int, float, float, float, int]]) -> None:
    assert [(number, low, high, count) for number, low, _, high, count in got] == [
        (number, low, high, count) for number, low, _, high, count in wanted
    ]
    assert [mean for _, _, mean, _, _ in got] == pytest.approx(
        [mean for _, _, mean, _, _ in wanted], rel=1e-6, abs=0.11
    )


def holed() -> list[Row]:
    """Half an hour with a gap, a metric that comes late, one that fails now and then, one that never answers."""
    rows = []
    for second in (*range(700), *range(1000, 1800)):
        missing = {"pcie_replays": None}
        missing |= {"ecc_corrected": None} if second < 300 else {}
        missing |= {"power_w": None} if second > 1000 and second % 7 == 0 else {}
        rows.append(sample(second, **missing))
    return rows


def test_what_was_sealed_is_read_as_it_was_told(db: Session):
    rows, until = holed(), START + timedelta(seconds=1800)

    def ask() -> dict[str, Any]:
        return {
            name: (
                told(range_of(db, 0, name, START, until, 90)),
                series.summary(db, 1, 0, name, START, until),
            )
            for name in METRICS
        }

    newest.add(db, rows)
    before = ask()
    sealed = sealing.seal(db, 1, 0, 555)
    assert sealed is not None
    sealing.write(db, sealed)
    half = ask()
    seal_all(db)
    after = ask()
    for name in METRICS:
        for one in (before, half, after):
            same(one[name][0], expected(rows, until, 90, name))
        if name == "pcie_replays":
            assert before[name][1] is half[name][1] is after[name][1] is None
        else:
            assert astuple(half[name][1]) == pytest.approx(astuple(before[name][1]))
            assert astuple(after[name][1]) == pytest.approx(astuple(before[name][1]))


def test_minutes_and_hours_say_what_the_samples_say(db: Session):
    rows = [sample(10 * n, clock_reasons=4 if n % 5 == 0 else 1) for n in range(1, 4320)]
    until = START + timedelta(hours=12)

    newest.add(db, rows)
    seal_all(db)
    for points in (720, 12):
        found = asked(db, 0, START, until, points)
        for name in ("power_w", "utilization", "memory_used_bytes"):
            same(told(range_of(db, 0, name, START, until, points)), expected(rows, until, points, name))
        assert set(found.span_s[:-1]) == {60 if points == 720 else 3600}
    assert sum(found.throttled) == 863
    assert series.throttling(db, 1, 0, START, until) == {"power cap": 863}
    assert series.throttled_share(db, 1, 0, START, until) == pytest.approx(863 / 4319)


def test_weeks_are_summed_up_by_the_hour(db: Session):
    rows = [sample(600 * n, clock_reasons=4 if n % 4 == 0 else 0) for n in range(1440)]
    newest.add(db, rows)
    seal_all(db, most=30)
    until = START + timedelta(days=10)
    found = series.summaries(db, 1, 0, ("power_w", "utilization"), START, until)
    for name, one in found.items():
        values = [row[name] for row in rows]
        assert (one.samples, one.min, one.max) == (1440, min(values), max(values))
        assert one.mean == pytest.approx(sum(values) / len(values), rel=1e-3)
    assert series.throttling(db, 1, 0, START, until) == {"power cap": 360}


@pytest.mark.slow
def test_percentiles_of_a_long_time_are_those_of_samples(db: Session):
    """And not of minutes' means, which tremble less; mean, minimum and maximum are exact."""
    rows = [sample(5 * n) for n in range(8640)]
    newest.add(db, rows)
    seal_all(db, most=250)
    until = START + timedelta(hours=12)
    found = series.summary(db, 1, 0, "power_w", START, until)
    values = sorted(row["power_w"] for row in rows)
    assert found is not None
    assert (found.samples, found.min, found.max) == (8640, values[0], values[-1])
    assert found.mean == pytest.approx(sum(values) / len(values), rel=1e-5)
    assert (found.p5, found.p95) == pytest.approx((values[432], values[8208]), rel=0.15)
    while sealing.drop(db, RAW, until):
        pass
    means = series.summary(db, 1, 0, "power_w", START, until)
    assert means is not None
    assert means.samples == 8640
    assert means.p95 < found.p95 - 100


def test_what_is_too_old_for_seconds_comes_from_minutes_and_then_from_hours(db: Session):
    rows = [sample(30 * n, power_w=float(n)) for n in range(1440)]
    until = START + timedelta(hours=12)

    newest.add(db, rows)
    seal_all(db, most=120)
    full = range_of(db, 0, "power_w", START, until, 1440)
    assert [point.samples for point in full] == [1] * 1440
    while sealing.drop(db, RAW, START + timedelta(hours=8)):
        pass
    while sealing.drop(db, MINUTES, START + timedelta(hours=7)):
        pass
    found = range_of(db, 0, "power_w", START, until, 1440)
    columns = asked(db, 0, START, until, 1440)
    # Chunks of minutes are six hours long, from 06:00 and 12:00 on; one of seconds an hour.
    assert [columns.span_s.count(step) for step in (HOURS, MINUTES, RAW)] == [2, 360, 480]
    assert [point.at for point in found[:3]] == [START, START + timedelta(hours=1), START + timedelta(hours=2)]
    assert sum(point.samples for point in found) == 1440
    assert (found[0].min, found[0].max, found[0].samples) == (0, 119, 120)
    assert columns.with_gaps(30, 25) == columns


def test_the_newest_row_stays_and_due_says_what_is_to_be_sealed(db: Session):
    newest.add(db, [sample(second) for second in range(1199)])
    newest.add(db, [sample(second, gpu=1) for second in (0, 10, 20)])
    now = START + timedelta(seconds=1300)
    assert sealing.due(db, 1, now) == []
    newest.add(db, [sample(1199)])
    assert sealing.due(db, 1, now) == [(0, 900)]
    assert sealing.due(db, 1, START + timedelta(milliseconds=RAW_SPAN_MS + 1)) == [(0, 900), (1, 2)]
    seal_all(db, gpu=1)
    latest = series.latest(db, 1, 1)
    assert latest is not None
    assert latest.at == START + timedelta(seconds=20)
    assert series.known_gpus(db, 1) == [0, 1]


def test_a_chunk_reaches_no_further_than_its_span(db: Session):
    rows = [sample(3600 * n) for n in range(30)]

    newest.add(db, rows)
    seal_all(db)
    chunks = (
        db.connection().exec_driver_sql('SELECT start, "end", count FROM gpu_chunk WHERE tier = 0 AND part = 0').all()
    )
    assert [count for _, _, count in chunks] == [6, 6, 6, 6, 5]
    assert all(end - start < RAW_SPAN_MS for start, end, _ in chunks)
    for hour in range(29):
        since = START + timedelta(hours=hour, minutes=-1)
        [point] = range_of(db, 0, "power_w", since, since + timedelta(minutes=2), 4)
        assert point.min == rows[hour]["power_w"]


def test_a_clock_that_was_set_back_loses_nothing(db: Session):
    first, second = ([sample(n + shift) for n in range(0, 600, 2)] for shift in (0, 1))
    until = START + timedelta(seconds=600)

    for rows in (first, second):
        newest.add(db, rows)
        seal_all(db)
    together = sorted([*first, *second], key=lambda row: row["at"])
    same(told(range_of(db, 0, "power_w", START, until, 60)), expected(together, until, 60, "power_w"))


def test_a_clock_that_comes_to_the_same_moments_again_loses_none_of_the_others(db: Session):
    newest.add(db, [sample(n) for n in range(60)])
    again = [sample(n, power_w=7.0) for n in range(30, 90)]
    newest.add(db, again)
    until = START + timedelta(seconds=90)
    kept = [*(sample(n) for n in range(60)), *again[30:]]
    same(told(range_of(db, 0, "power_w", START, until, 9)), expected(kept, until, 9, "power_w"))

    seal_all(db)
    newest.add(db, [sample(n, power_w=7.0) for n in range(0, 20, 2)])
    seal_all(db)
    assert sum(point.samples for point in range_of(db, 0, "power_w", START, until, 9)) == 100


def test_a_clock_that_was_ahead_does_not_tell_what_is_latest(db: Session):
    newest.add(db, [sample(0), sample(10 * 366 * 86_400, power_w=7.0)])
    latest = series.latest(db, 1, 0)
    assert latest is not None
    assert latest.at == START
    newest.add(db, [sample(10 * 366 * 86_400, gpu=1)])
    assert series.latest(db, 1, 1) is not None


def test_a_chunk_of_a_later_version_is_refused_by_name():
    with pytest.raises(ValueError, match="version 9"):
        sealing.blocks.unpack_periods(b"\x09\x00")


def test_times_are_milliseconds(db: Session):
    newest.add(db, [sample(0.5)])
    assert db.connection().exec_driver_sql("SELECT at FROM gpu_sample").scalar_one() == to_ms(START) + 500
    found = db.get(models.GpuSample, (1, 0, START + timedelta(seconds=0.5)))
    assert found is not None


def test_the_daemon_seals_what_waits_and_drops_what_is_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Rows of an earlier version, a day of them, wait at the first start after the upgrade."""

    async def run(_: Hardware) -> None:
        """There is one keeper at a time, and here it is the test's."""
        await asyncio.Event().wait()

    monkeypatch.setattr(Hardware, "run", run)
    now = utc_now()
    with application(tmp_path / "store", samples_keep_d=0.5, sample_minutes_keep_d=0.6, sample_idle_s=3600) as client:
        runtime = client.app.state.runtime  # type: ignore[attr-defined]
        rows = [
            sample(0)
            | {"host_id": runtime.host_id, "gpu": 3, "at": now - timedelta(seconds=20 * n), "power_w": float(n)}
            for n in range(4000)
        ]
        runtime.store.write(lambda db: newest.add(db, rows))
        keeper = Keeper(runtime, runtime.host_id)
        asyncio.run(keeper.seal())
        asyncio.run(keeper.drop())
        query = {"since": (now - timedelta(days=1)).isoformat(), "until": now.isoformat(), "points": 24}
        told = client.get("/api/v1/gpus/3/samples", params=query).json()
        with runtime.store.read() as db:
            left = db.connection().exec_driver_sql("SELECT count(*) FROM gpu_sample").scalar_one()
            tiers = db.connection().exec_driver_sql(
                "SELECT tier, min(start), max(\"end\") FROM gpu_chunk WHERE part = 0 GROUP BY tier"
            ).all()  # fmt: skip
    assert 300 <= left < 1200
    [raw, minutes, hours] = tiers
    assert raw[2] == to_ms(now - timedelta(seconds=20 * left)) // 10 * 10
    assert to_ms(now - timedelta(hours=12, seconds=RAW_SPAN_MS / 1000)) < raw[1] < to_ms(now - timedelta(hours=5))
    assert minutes[1] > hours[1]
    assert sum(told["samples"]) == pytest.approx(4000, abs=180)
    assert max(value for value in told["metrics"]["power_w"]["max"] if value is not None) == pytest.approx(
        3999, abs=200
    )
