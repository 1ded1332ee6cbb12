"""Results of benchmarks that somebody else runs: only what was written since the start, and each run once."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import Session
from tests.daemons import seed

from sitrepd import facts
from sitrepd.benchmarks.files import result_files
from sitrepd.benchmarks.models import Benchmark
from sitrepd.benchmarks.watch import BenchmarkFiles, Seen, _long_ago, _seen
from sitrepd.clock import utc_now
from sitrepd.facts import Scope
from sitrepd.hardware import newest
from sitrepd.hardware.models import Host
from sitrepd.launches.models import Launch
from sitrepd.runtime import Runtime
from sitrepd.settings import load_settings
from sitrepd.slices import load_registry
from sitrepd.storage.store import Store

DATA = Path(__file__).parents[1] / "data" / "bench"
BASE = (DATA / "sglang-0.5.16-base.jsonl").read_bytes()
STEPS = (DATA / "sglang-0.5.16-eagle3-2-steps.jsonl").read_bytes()


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    """A store with one open session."""
    seed(tmp_path / "store")
    store = Store(load_settings(data_dir=tmp_path / "store"))
    found = Runtime(store.settings, store, load_registry())

    def job(db: Session) -> None:
        noun = found.registry.by_word["session"]
        facts.tell(db, noun, noun.create.model_validate({"name": "s"}), Scope(found.registry, "told:test"))

    store.write(job)
    yield found
    store.close()


def running(folder: Path, *argv: str) -> list[dict[str, Any]]:
    """What discovery says of a benchmark."""
    words = ["python", "-m", "sglang.bench_serving", *argv]
    return [{"pid": 7, "name": "b", "argv": words, "cwd": str(folder), "started_at": utc_now()}]


def names(runtime: Runtime) -> list[str]:
    with runtime.store.read() as db:
        return [str(row.name) for row in facts.all_rows(db, runtime.registry.by_word["benchmark"], 1)]


def test_only_what_is_new_in_the_file_is_taken_in(runtime: Runtime, tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    file.write_bytes(b"no result\n")
    os.utime(file, (1, 1))

    async def scenario() -> None:
        watch = BenchmarkFiles(runtime)
        runtime.live["benchmarks_running"] = running(tmp_path, "--output-file", "all.jsonl")
        await watch.look()
        await watch.look()
        file.write_bytes(file.read_bytes() + BASE)
        assert names(runtime) == []
        runtime.live["benchmarks_running"] = []
        await watch.look()
        await watch.look()

    asyncio.run(scenario())
    assert len(names(runtime)) == 1
    with runtime.store.read() as db:
        row: Any = db.get(Benchmark, 1)
    assert row.provenance == f"observed:{file}"


def test_a_file_that_was_written_before_the_first_look_is_new(runtime: Runtime, tmp_path: Path) -> None:
    async def scenario() -> None:
        watch = BenchmarkFiles(runtime)
        runtime.live["benchmarks_running"] = running(tmp_path, "--output-file", "r.jsonl")
        (tmp_path / "r.jsonl").write_bytes(BASE)
        os.utime(tmp_path / "r.jsonl", (2**33, 2**33))
        await watch.look()
        runtime.live["benchmarks_running"] = []
        await watch.look()

    asyncio.run(scenario())
    assert len(names(runtime)) == 1


def test_one_that_ends_between_two_looks_is_not_missed(runtime: Runtime, tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    file.write_bytes(b"no result\n")
    os.utime(file, (1, 1))

    async def scenario() -> None:
        watch = BenchmarkFiles(runtime)
        await watch.look()
        runtime.live["benchmarks_running"] = running(tmp_path, "--output-file", "all.jsonl")
        await watch.began(runtime.live["benchmarks_running"])
        file.write_bytes(file.read_bytes() + BASE)
        runtime.live["benchmarks_running"] = []
        await watch.look()
        await watch.look()

    asyncio.run(scenario())
    assert len(names(runtime)) == 1


def test_a_run_that_a_hook_tells_too_counts_once(runtime: Runtime, tmp_path: Path) -> None:
    (tmp_path / "sglang_1201_24_random-ids.jsonl").write_bytes(BASE + STEPS)

    async def scenario() -> list[list[int]]:
        watch = BenchmarkFiles(runtime)
        words = [("python", "-m", "sglang.bench_serving", "--backend", "sglang")]
        return [await watch.ran(words, str(tmp_path), 1, "= Serving Benchmark Result =") for _ in range(2)]

    first, second = asyncio.run(scenario())
    assert sorted(first) == sorted(second) == [1, 2]
    assert len(names(runtime)) == 2


def test_an_old_file_is_not_what_just_ran(runtime: Runtime, tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    file.write_bytes(BASE)
    os.utime(file, (1, 1))

    async def scenario() -> list[int]:
        words = [("python", "-m", "sglang.bench_serving", "--output-file=r.jsonl")]
        return await BenchmarkFiles(runtime).ran(words, str(tmp_path), 1, None)

    assert asyncio.run(scenario()) == []


@pytest.mark.parametrize("look", [_long_ago, lambda argv, folder: _seen(argv, folder, time.time() + 60)])
def test_a_file_that_vanishes_as_it_is_looked_at_stops_nothing(
    look: Callable[[Sequence[str], Path], Seen], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, old = tmp_path / "gone.jsonl", tmp_path / "old.jsonl"
    for path in (gone, old):
        path.write_bytes(BASE)
        os.utime(path, (0, 0))

    def listed(argv: Sequence[str], folder: Path) -> list[Path]:
        found = result_files(argv, folder)
        gone.unlink()
        return found

    monkeypatch.setattr("sitrepd.benchmarks.watch.result_files", listed)
    seen = look(["sglang.bench_serving", "--output-file", "gone.jsonl", "--output-file", "old.jsonl"], tmp_path)
    assert not gone.exists()
    assert seen.sizes.get(old, len(BASE)) == len(BASE)


def test_a_file_that_is_no_result_stops_nothing(runtime: Runtime, tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text("{broken")

    async def scenario() -> list[int]:
        return await BenchmarkFiles(runtime).ran([("bench", "--output-file", "r.jsonl")], str(tmp_path), 1, "x")

    assert asyncio.run(scenario()) == []


def test_files_are_known_by_the_words_or_by_their_names(tmp_path: Path) -> None:
    for name in ("a.jsonl", "sglang_0102_16_sharegpt.jsonl", "other.jsonl"):
        (tmp_path / name).touch()
    (tmp_path / "folder.jsonl").mkdir()
    bench = ("python", "bench_serving.py")

    def found(*argv: str) -> list[str]:
        return [path.name for path in result_files(argv, tmp_path)]

    assert found(*bench, "--output-file", "a.jsonl") == ["a.jsonl"]
    assert found(*bench, "--output-file=missing.jsonl") == []
    assert found(*bench, "--output-file", "folder.jsonl") == []
    assert found(*bench, "--output-file") == ["sglang_0102_16_sharegpt.jsonl"]
    assert found(*bench) == ["sglang_0102_16_sharegpt.jsonl"]
    assert found("ls") == []
    assert result_files(bench, tmp_path / "gone") == []


def test_a_run_during_which_a_gpu_was_hot_is_marked(runtime: Runtime, tmp_path: Path) -> None:
    """The launch is known by the port of its server; the run says itself how long it took."""
    now = utc_now()

    def job(db: Session) -> None:
        db.add(Host(id=5, name="box", provenance="observed"))
        db.flush()
        started = now - timedelta(hours=1)
        shared = {"provenance": "observed:launch", "observed_at": started, "at": started, "session_id": 1}
        db.add(
            Launch(
                id=3,
                host_id=5,
                watched=True,
                port=8000,
                model="/models/target",
                started_at=started,
                state="ready",
                **shared,
            )
        )
        hot = [{"host_id": 5, "gpu": 2, "at": now - timedelta(seconds=s), "clock_reasons": 0x40} for s in range(600)]
        newest.add(db, hot)

    runtime.store.write(job)
    file = tmp_path / "one.jsonl"

    async def scenario() -> None:
        watch = BenchmarkFiles(runtime)
        runtime.live["benchmarks_running"] = running(tmp_path, "--output-file", "one.jsonl")
        await watch.look()
        file.write_bytes(BASE)
        runtime.live["benchmarks_running"] = []
        await watch.look()

    asyncio.run(scenario())
    with runtime.store.read() as db:
        row: Any = db.get(Benchmark, 1)
    assert row.launch_id == 3
    [mark] = row.marks
    assert mark.startswith("GPU 2 throttled for ")
    assert mark.endswith(": thermal (hardware)")
