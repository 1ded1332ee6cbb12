"""A log that is long when it is found: thinned without losing a milestone, and nobody waits for it."""

from __future__ import annotations

import time
from datetime import UTC
from pathlib import Path

import pytest
from tests.daemons import running_daemon
from tests.helpers import wait_until
from tests.launches.reading import LOGS, SEEN, only

from sitrepd.launches.engines._skim import sglang as skim
from sitrepd.launches.engines.base import LogEvent, Throughput
from sitrepd.launches.engines.sglang import SglangEngine
from sitrepd.launches.follow import LogFollower

START = (LOGS / "h200-0.5.16-eagle3-s3.log").read_bytes()
BUSY = b"".join(
    line
    for line in START.splitlines(keepends=True)
    if line.startswith(b"[") and (b"] Decode batch" in line or b"] INFO:     127" in line)
)


def long_log(path: Path, size: int) -> int:
    path.write_bytes(START + BUSY * (size // len(BUSY)) + b"[2026-12-01 02:00:00] SIGTERM received. Draining\n")
    return path.stat().st_size


def events_of(path: Path, *, thinned: bool) -> list[LogEvent]:
    follower, parser = LogFollower(path), SglangEngine().parser(tz=UTC)
    follower.skim = skim if thinned else None
    events = []
    while not follower.at_end:
        events += [event for line in follower.read() for event in parser.feed(line, SEEN)]
    position = follower.position
    assert position is not None
    assert position.offset == path.stat().st_size
    return events


def test_thinning_loses_nothing_but_figures(tmp_path: Path) -> None:
    long_log(tmp_path / "log", 3 << 20)
    whole, thinned = (events_of(tmp_path / "log", thinned=thinned) for thinned in (False, True))

    def others(events: list[LogEvent]) -> list[LogEvent]:
        return [event for event in events if not isinstance(event, Throughput)]

    assert others(thinned) == others(whole)
    assert 10 < len(only(thinned, Throughput)) < 200 < len(only(whole, Throughput))


def test_a_small_block_is_read_whole(tmp_path: Path) -> None:
    long_log(tmp_path / "log", 100_000)
    assert events_of(tmp_path / "log", thinned=True) == events_of(tmp_path / "log", thinned=False)


def test_lines_of_text_that_look_alike_are_left() -> None:
    block = b"[2026-12-01 01:00:00] Load weight begin. avail mem=1.00 GB\n" + b"Decode batch of cookies\n" * 3
    assert skim(block) == block
    assert skim(b"") == b""


@pytest.mark.slow
def test_the_api_answers_while_a_long_log_is_caught_up_with(tmp_path: Path) -> None:
    log = tmp_path / "big.log"
    size = long_log(log, 200 << 20)
    with running_daemon(tmp_path / "store") as daemon:
        body = {"command": f"cat {log}; sleep 300", "cwd": str(tmp_path), "engine": "sglang"}
        assert daemon.client.post("/api/v1/launches", json=body).status_code == 201
        slowest = 0.0

        def caught_up() -> bool:
            nonlocal slowest
            began = time.perf_counter()
            launch = daemon.client.get("/api/v1/launches/L1").json()
            slowest = max(slowest, time.perf_counter() - began)
            return "throughput" in launch and len(launch["phases"]) > 10

        wait_until(caught_up)
        assert size > 200_000_000
        assert slowest < 1.0
