"""Time left of a start, on recorded starts and on bars made by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from tests.launches.playing import first_errors, known_errors, middle, recording
from tests.launches.reading import LOGS

from sitrepd.launches import typical
from sitrepd.launches.course import Course, Steps, spans
from sitrepd.launches.engines.base import PhaseBegan, PhaseEnded, PhaseProgress, Restarted, Warned
from sitrepd.launches.eta import Earlier, Known, estimate

T0 = datetime(2026, 12, 1, tzinfo=UTC)
SPANS = {"starting": 20.0, "load_weights": 100.0, "kv_cache": 5.0, "capture_prefill": 60.0, "warmup": 15.0}


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def began(phase: str, seconds: float) -> PhaseBegan:
    return PhaseBegan(at=at(seconds), phase=phase)


def moved(phase: str, seconds: float, done: int, total: int) -> PhaseProgress:
    return PhaseProgress(at=at(seconds), phase=phase, done=done, total=total, unit="shards")


def bar(total: int, *marks: tuple[float, int]) -> Steps:
    steps = Steps(total)
    for seconds, done in marks:
        steps.add(at(seconds), done, total)
    return steps


def test_a_start_whose_like_was_seen_is_foretold_within_a_fifth() -> None:
    s2, s3 = (recording(LOGS / f"h200-0.5.16-eagle3-{name}.log") for name in ("s2", "s3"))
    errors = known_errors(s3, s2)
    assert len(errors) == 9
    assert middle(errors) <= 0.2


@pytest.mark.parametrize(
    ("name", "draft"),
    [("h200-0.5.16-base-cold-jit", False), ("h200-0.5.16-eagle3-s2", True), ("h200-0.5.16-eagle3-s3", True)],
)
def test_a_first_start_is_foretold_within_a_half_once_the_weights_are_read(name: str, draft: bool) -> None:
    errors = first_errors(recording(LOGS / f"{name}.log"), draft)
    assert len(errors) >= 4
    assert middle(errors) <= 0.5


def test_the_truth_is_inside_the_range_of_a_first_start() -> None:
    start = recording(LOGS / "h200-0.5.16-base-cold-jit.log")
    ticks = [(left, told) for _, left, told in start.ticks(Known("sglang", False)) if told is not None]
    assert len(ticks) == 7
    assert all(told.low_s <= left <= told.high_s for left, told in ticks)


def test_nothing_is_said_of_a_first_start_before_it_reads_weights() -> None:
    course = Course()
    assert estimate(course, Known("sglang"), at(0)) is None
    course.feed([began("starting", 0), began("dist_init", 20)])
    assert estimate(course, Known("sglang"), at(25)) is None


def test_nothing_is_said_where_the_bar_stands_and_the_size_is_unknown() -> None:
    course = Course()
    course.feed([began("starting", 0), began("load_weights", 20), moved("load_weights", 20, 0, 64)])
    assert estimate(course, Known("sglang"), at(30)) is None
    told = estimate(course, Known("sglang", weight_bytes=547 * 10**9), at(30))
    assert told is not None
    assert (told.of, told.low_s < 400 < told.high_s) == ("start", True)


def test_phases_of_an_earlier_start_are_added_up() -> None:
    course = Course()
    course.feed([began("starting", 0), began("load_weights", 20), PhaseEnded(at=at(118), phase="load_weights")])
    course.feed([began("kv_cache", 120)])
    told = estimate(course, Known("sglang", same=[Earlier(SPANS)]), at(122))
    assert told is not None
    assert (told.remaining_s, told.of) == (3 + 60 + 15, "start")
    assert (told.low_s, told.high_s) == (78 * 0.75, 78 * 1.25)


def test_a_slower_disk_shows_in_the_estimate() -> None:
    course = Course()
    course.feed([began("starting", 0), began("load_weights", 20)])
    course.feed([moved("load_weights", 20 + 10 * n, n, 20) for n in range(11)])
    told = estimate(course, Known("sglang", same=[Earlier(SPANS)]), at(120))
    assert told is not None
    assert told.remaining_s == pytest.approx(80 + 0.5 * 10 + 0.5 * 100, abs=1)


def test_three_earlier_starts_give_the_range() -> None:
    course = Course()
    course.feed([began("starting", 0)])
    same = [Earlier(SPANS | {"load_weights": seconds}) for seconds in (50.0, 100.0, 400.0)]
    told = estimate(course, Known("sglang", same=same), at(0))
    assert told is not None
    assert (told.remaining_s, told.low_s, told.high_s) == (200, 150, 500)


def test_cold_kernels_widen_the_range() -> None:
    course = Course()
    course.feed([began("starting", 0)])
    warm = estimate(course, Known("sglang", same=[Earlier(SPANS, cold=False)], cold=False), at(0))
    cold = estimate(course, Known("sglang", same=[Earlier(SPANS, cold=False)], cold=True), at(0))
    assert warm is not None
    assert cold is not None
    assert cold.high_s == warm.high_s + typical.COMPILE_S


def test_a_start_of_another_draft_helps() -> None:
    course = Course()
    course.feed([began("starting", 0)])
    told = estimate(course, Known("sglang", draft=True, alike=[Earlier(SPANS)]), at(0))
    assert told is not None
    assert told.of == "start"
    assert 150 < told.remaining_s < 250


def test_an_unknown_engine_gets_the_phase_alone() -> None:
    course = Course()
    course.feed([began("starting", 0), began("load_weights", 0), moved("load_weights", 10, 5, 10)])
    told = estimate(course, Known("generic"), at(10))
    assert told is not None
    assert (told.of, told.remaining_s) == ("phase", 10)


def test_a_bar_goes_by_its_latest_steps() -> None:
    """Twelve shards from the page cache say nothing of those on the disk."""
    cached = [(n * 0.1, n) for n in range(13)]
    slow = [(1.2 + 10 * n, 12 + n) for n in range(1, 12)]
    assert bar(64, *cached, *slow).left_s(at(111.2)) == pytest.approx(41 * 10, rel=0.1)
    assert bar(64, (0, 0)).left_s(at(9)) is None


def test_a_bar_that_stands_slows_down() -> None:
    steps = bar(20, *((n, n) for n in range(11)))
    assert steps.left_s(at(10)) == 10
    later = steps.left_s(at(40))
    assert later is not None
    assert later > 60


def test_a_long_first_step_is_left_out() -> None:
    steps = bar(58, (0, 0), (50, 1), (50.5, 2), (51, 3), (51.5, 4))
    assert steps.left_s(at(51.5)) == pytest.approx(27, abs=2)


def test_a_bar_that_starts_again_is_another_bar() -> None:
    steps = bar(8, (0, 0), (10, 8))
    steps.add(at(20), 0, 4)
    assert (steps.done, steps.total) == (0, 4)


def test_a_bar_of_graphs_before_its_first_step_compiles() -> None:
    course = Course()
    course.feed([began("capture_prefill", 0), moved("capture_prefill", 0, 0, 58)])
    assert not course.is_compiling(at(5))
    assert course.is_compiling(at(20))
    course.feed([moved("capture_prefill", 50, 1, 58)])
    assert not course.is_compiling(at(51))


def test_a_restart_forgets() -> None:
    course = Course()
    course.feed([began("load_weights", 0), Restarted(at=at(5))])
    assert course.current() is None


def test_no_graphs_are_waited_for_where_there_will_be_none() -> None:
    course = Course()
    course.feed([began("load_weights", 0), PhaseEnded(at=at(2), phase="load_weights"), began("kv_cache", 2)])
    with_graphs = estimate(course, Known("sglang"), at(2))
    course.feed([Warned(at=at(2), what="graphs_disabled", text="Cuda graph is disabled because of torch native")])
    without = estimate(course, Known("sglang"), at(2))
    assert with_graphs is not None
    assert without is not None
    assert without.remaining_s < with_graphs.remaining_s - 20


def test_spans_fill_the_whole_start() -> None:
    rows = [
        SimpleNamespace(name=name, started_at=at(begin), ended_at=at(end), total=None)
        for name, begin, end in (
            ("starting", 0, 20),
            ("load_weights", 22, 62),
            ("compile_kernels", 30, 60),
            ("warmup", 62, 70),
        )
    ]
    assert spans(rows, at(72)) == {"starting": 22, "load_weights": 40, "warmup": 10}
    rows[1].ended_at = at(30)
    assert spans(rows, at(72)) == {"starting": 22, "load_weights": 8, "compile_kernels": 32, "warmup": 10}
    assert spans([], None) == {}
