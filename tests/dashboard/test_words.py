"""Times and sizes as the dashboard says them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from sitrepd.dashboard import words

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "just now"),
        (59, "59 s ago"),
        (60, "1 min ago"),
        (3599, "59 min ago"),
        (7300, "2 h ago"),
        (200_000, "2 d ago"),
    ],
)
def test_ago(seconds: int, text: str) -> None:
    assert words.ago(NOW - timedelta(seconds=seconds), NOW) == text


def test_an_age_from_a_clock_that_runs_ahead() -> None:
    assert words.ago(NOW + timedelta(seconds=30), NOW) == "just now"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0, "< 0.1 s"), (0.5, "0.5 s"), (9.94, "9.9 s"), (10, "10 s"), (610, "10 min 10 s")]
)
def test_a_measured_time(seconds: float, text: str) -> None:
    assert words.seconds_text(seconds) == text


@pytest.mark.parametrize(
    ("low", "middle", "high", "of", "text"),
    [
        (None, None, None, None, ""),
        (160.0, 214.0, 268.0, "start", "about 3.5 min left (2.5 to 4.5 min)"),
        (15.0, 20.0, 31.0, "phase", "about 20 s left of this phase (15 to 30 s)"),
        (40.0, 60.0, 90.0, "start", "about 1 min left (40 s to 1.5 min)"),
        (600.0, 601.0, 602.0, "start", "about 10 min left"),
        (0.1, 0.3, 0.5, "phase", "this phase is about to end"),
        (3000.0, 7200.0, 9000.0, "start", "about 2 h left (50 min to 2.5 h)"),
        (None, 30.0, None, "start", "about 30 s left"),
    ],
)
def test_time_left(low: float | None, middle: float | None, high: float | None, of: str | None, text: str) -> None:
    assert words.left(low, middle, high, of) == text


def test_sizes() -> None:
    assert [words.size(547_000_000_000), words.size(1500), words.size(12)] == ["547 GB", "1.5 kB", "12 bytes"]
    assert [words.count(10**12), words.count(7_600_000_000), words.count(950)] == ["1 T", "7.6 B", "950"]
    assert words.gib(102_641_958_912) == "95.6"
