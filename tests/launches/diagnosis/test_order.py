"""A log whose newest line stands first is read from its end."""

from __future__ import annotations

from itertools import groupby

import pytest
from tests.launches.diagnosis.corpus import Entry, entries

from sitrepd.launches.diagnosis import diagnose
from sitrepd.launches.diagnosis.order import is_newest_first

BEGIN = [
    "[2026-11-02 10:00:01] server_args=ServerArgs(model_path='/models/kimi', port=30000, tp_size=2)",
    "[2026-11-02 10:00:05 TP0] Init torch distributed begin.",
    "[2026-11-02 10:00:06 TP0] Load weight begin. avail mem=93.10 GB",
    "[2026-11-02 10:00:11 TP0] Scheduler hit an exception: Traceback (most recent call last):",
    '  File "/x/sglang/srt/model_loader/loader.py", line 3, in load_model',
    "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge",
    "[2026-11-02 10:00:12] Received sigquit from a child process. It usually means the child failed.",
    "run.sh: line 7: 28 Killed                  python3 -m sglang.launch_server",
]
TIMED = [one for one in entries() if one.category and sum(line.startswith("[2026-") for line in one.lines) > 4]


def by_records(lines: list[str]) -> list[str]:
    """The records in reverse, each of them as it was written."""
    count = 0
    keys = []
    for line in lines:
        count += line.startswith("[20") or line.startswith("run.sh")
        keys.append(count)
    records = [
        [line for _, line in group] for _, group in groupby(zip(keys, lines, strict=True), key=lambda one: one[0])
    ]
    return [line for record in reversed(records) for line in record]


@pytest.mark.parametrize("lines", [BEGIN, BEGIN[::-1], by_records(BEGIN)], ids=["upright", "by line", "by record"])
def test_order_of_the_lines_changes_nothing(lines: list[str]) -> None:
    told = diagnose(lines)
    assert told.category == "weights_corrupt"
    for one in told.evidence:
        assert lines[one.line - 1].strip().endswith(one.text)


@pytest.mark.parametrize("entry", TIMED[::7], ids=lambda entry: entry.name)
def test_newest_first_is_no_worse(entry: Entry) -> None:
    assert diagnose(entry.lines[::-1]).category in (entry.category, "unknown", "scheduler_exception")


@pytest.mark.parametrize(
    "times",
    [[], ["10:00:01"], ["10:00:05", "10:00:04", "10:00:04"], ["10:00:09", "10:00:08", "10:00:09", "10:00:08"]],
)
def test_a_clock_that_steps_back_is_no_order(times: list[str]) -> None:
    assert not is_newest_first([f"[2026-11-02 {time}] something" for time in times])
