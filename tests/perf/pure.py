"""Pure functions that stand in everybody's way: comparing, redacting, reading a settings line, a machine or a long log."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

from tests.launches.reading import LOGS
from tests.perf.logs import long_log
from tests.perf.measure import Figure, benchmark

from sitrepd.benchmarks.compare import Run, compare
from sitrepd.benchmarks.decide import decide
from sitrepd.benchmarks.metrics import metric
from sitrepd.hardware.machine import read_machine
from sitrepd.launches.diagnosis import diagnose
from sitrepd.launches.engines._settings import parse_server_args
from sitrepd.redact import redact_text

_RUNS = 1000


def runs(count: int) -> list[Run]:
    """Runs of one workload in up to 770 configurations."""
    settings = {f"setting_{i}": i for i in range(20)}
    workload = {f"asked_{i}": i for i in range(8)}
    return [
        Run(
            f"B{i}", {"output_throughput": metric("output_throughput", Decimal(f"{50 + i % 97}.5"))}, None, i == 0, workload=workload,
            config=settings | {"speculative_algorithm": "EAGLE3", "speculative_num_steps": i % 10, "tp_size": i % 7, "page_size": i % 11},
        )
        for i in range(count)
    ]  # fmt: skip


def _best_s(work: Callable[[], object], times: int) -> float:
    def once() -> float:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    return min(once() for _ in range(times))


def settings_line() -> str:
    data = (LOGS / "cpu-0.5.23-success.log").read_text()
    return next(line for line in data.splitlines() if "server_args=" in line)


@benchmark("compare_ms")
def comparing() -> Iterator[Figure]:
    """The comparison of a thousand runs."""
    told = runs(_RUNS)
    decided = 1e3 * _best_s(lambda: decide(compare(told), {}), 5)
    yield Figure("compare_ms", decided, "ms", limit=100, note=f"{_RUNS} runs, with their intervals")


@benchmark("redact_settings_ms", "redact_line_us")
def redacting() -> Iterator[Figure]:
    """What every line of a log goes through: one with all server arguments, and a short one."""
    line, short = settings_line(), "[2026-12-01 01:42:26 TP0] Load weight begin. avail mem=18.85 GB"
    note = f"{len(line)} characters"
    yield Figure("redact_settings_ms", 1e3 * _best_s(lambda: redact_text(line), 200), "ms", limit=1, note=note)
    yield Figure("redact_line_us", 1e6 * _best_s(lambda: redact_text(short), 2000), "µs", limit=30)


@benchmark("parse_settings_ms")
def parsing() -> Iterator[Figure]:
    """The settings of a start, from its line."""
    told = settings_line().partition("server_args=")[2]
    yield Figure("parse_settings_ms", 1e3 * _best_s(lambda: parse_server_args(told), 20), "ms", limit=50)


@benchmark("read_machine_ms")
def machine() -> Iterator[Figure]:
    """What the daemon reads of its machine at the start."""
    yield Figure("read_machine_ms", 1e3 * _best_s(lambda: read_machine(["/"]), 10), "ms", limit=50)


@benchmark("diagnose_100mb_s")
def diagnosing() -> Iterator[Figure]:
    """`sitrep diagnose` of a long log."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "server.log"
        long_log(path, 100_000_000)
        yield Figure("diagnose_100mb_s", _best_s(lambda: diagnose(path), 1), "s", limit=20)
