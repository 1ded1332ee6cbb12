"""A log that breaks off, where only Python's tracker of shared memory has said something since."""

from __future__ import annotations

import pytest

from sitrepd.launches.diagnosis import diagnose

START = [
    "[2026-11-02 10:00:01] server_args=ServerArgs(model_path='/models/kimi', port=30000, tp_size=2)",
    "[2026-11-02 10:00:05 TP0] Init torch distributed begin.",
    "[2026-11-02 10:00:06 TP0] Init torch distributed ends. elapsed=1.20 s, mem usage=0.61 GB",
    "[2026-11-02 10:00:06 TP0] Load weight begin. avail mem=93.10 GB",
]
TRACKER = [
    "/usr/lib/python3.12/multiprocessing/resource_tracker.py:254: UserWarning: resource_tracker: There appear to be 3 "
    "leaked semaphore objects to clean up at shutdown",
    "  warnings.warn('resource_tracker: There appear to be %d '",
]


def test_processes_that_are_gone_were_ended_from_outside() -> None:
    told = diagnose([*START, *TRACKER])
    assert (told.state, told.phase, told.category) == ("failed", "load_weights", "host_oom_killed")
    assert "from outside" in told.summary


@pytest.mark.parametrize(
    "lines",
    [
        START,
        [*START, *TRACKER, "[2026-11-02 10:00:08 TP0] Load weight end. elapsed=2.05 s, avail mem=24.10 GB"],
        [*START, "SIGTERM received. signum=None frame=None. Draining requests and shutting down...", *TRACKER],
    ],
    ids=["goes on", "tracker of a child", "asked to end"],
)
def test_where_it_goes_on_or_was_asked_to_end_nothing_failed(lines: list[str]) -> None:
    assert diagnose(lines).category is None
