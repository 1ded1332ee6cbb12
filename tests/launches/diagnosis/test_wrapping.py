"""What stands in front of every line is learned; what only happens to stand there is not."""

from __future__ import annotations

from tests.launches.reading import LOGS

from sitrepd.launches.diagnosis import diagnose
from sitrepd.launches.diagnosis.wrapping import wrapper_of

LINES = [
    "[2026-11-02 10:00:05 TP0] Init torch distributed begin.",
    "[2026-11-02 10:00:06 TP0] Load weight begin. avail mem=93.10 GB",
    "a line without a stamp",
    "[2026-11-02 10:00:08 TP0] Load weight end. elapsed=2.05 s",
]


def test_numbers_in_front_may_differ() -> None:
    wrapper = wrapper_of(f"run 7, line {number} > {line}" for number, line in enumerate(LINES))
    assert wrapper is not None
    found = wrapper.match("run 7, line 4711 > Traceback")
    assert found is not None
    assert found.end() == len("run 7, line 4711 > ")


def test_bars_that_are_glued_to_records_are_no_wrapper() -> None:
    glued = [f"Loading shards:  50% Completed | 1/2 [00:01<00:01]{line}" for line in LINES[:1]]
    assert wrapper_of([*LINES, *glued]) is None


def test_what_is_known_in_front_of_lines_keeps_who_wrote_them() -> None:
    assert wrapper_of(f"(EngineCore_DP0 pid=271) ERROR 10-25 13:08:43 [core.py:708] {line}" for line in LINES) is None
    assert wrapper_of(f"2026-11-02T10:00:01.123456789Z stderr F {line}" for line in LINES) is None
    assert wrapper_of(LINES) is None
    assert wrapper_of([]) is None


def test_lines_keep_their_numbers_and_ranks() -> None:
    plain = (LOGS / "h200-0.5.16-fail-memfraction.log").read_text().splitlines()
    wrapped = [f"INFO:runner:{line}" for line in plain]
    told, same = diagnose(wrapped), diagnose(plain)
    assert (told.category, told.summary, told.evidence) == (same.category, same.summary, same.evidence)
