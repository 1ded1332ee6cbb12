"""Time left of a start: from earlier starts, phase by phase, else from the pace of its bars and what is typical."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from statistics import median
from typing import Literal

from sitrepd.launches import typical
from sitrepd.launches.course import Course
from sitrepd.launches.typical import NOTHING, Span

_SPREAD = 0.25
_FEW = 3
_TAIL = 0.1


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds left, with a range; `of` says whether to ready or to the end of the present phase."""

    remaining_s: float
    low_s: float
    high_s: float
    of: Literal["start", "phase"]


@dataclass(frozen=True, slots=True)
class Earlier:
    """An earlier start: seconds by phase, as `course.spans` gives them, and whether its kernels had to be compiled."""

    spans: Mapping[str, float]
    cold: bool | None = None


@dataclass(frozen=True)
class Known:
    """What is known before a start shows anything: `same` starts (newest first), `alike` ones of another draft."""

    engine: str = "generic"
    draft: bool = False
    same: Sequence[Earlier] = ()
    alike: Sequence[Earlier] = ()
    cold: bool | None = None
    weight_bytes: int | None = field(default=None)


def estimate(course: Course, known: Known, now: datetime) -> Estimate | None:
    """None where nobody can know: no earlier start is, and the weights are not being read yet."""
    phase = course.current()
    if phase is None:
        return None
    same = _prefer(known.same, known.cold)
    if same:
        return _from_same(course, known, same, phase, now)
    left = _left(course, known, phase, now)
    if left is None:
        return _of_phase(course, phase, now)
    return Estimate(left.mid, min(left.low, left.mid), max(left.high, left.mid), "start")


def _prefer(earlier: Sequence[Earlier], cold: bool | None) -> Sequence[Earlier]:
    """The starts with the same state of the caches, if there are any."""
    return [one for one in earlier if one.cold is cold] or earlier


def _from_same(course: Course, known: Known, same: Sequence[Earlier], phase: str, now: datetime) -> Estimate:
    warmed = known.cold is False and same[0].cold is True
    spans = [typical.once_cached(one.spans) if warmed else one.spans for one in same]
    lefts = [_left_of(course, one, phase, now) for one in spans]
    middle = median(lefts)
    low, high = middle * (1 - _SPREAD), middle * (1 + _SPREAD)
    if len(lefts) >= _FEW:
        low, high = min(lefts), max(lefts)
    if known.cold and same[0].cold is not True and not {"capture_decode", "capture_verify"} & course.began.keys():
        high += typical.COMPILE_S
    if warmed:
        high = max(high, *(_left_of(course, one.spans, phase, now) for one in same))
    return Estimate(middle, low, high, "start")


def _left_of(course: Course, spans: Mapping[str, float], phase: str, now: datetime) -> float:
    """What an earlier start had still before it, the present phase corrected by the pace of its bar."""
    names = list(spans)
    ahead = names[names.index(phase) + 1 :] if phase in names else names
    rest = sum(spans[name] for name in ahead if name not in course.began)
    elapsed = course.elapsed_s(phase, now)
    usual = spans.get(phase, 0.0)
    return rest + _blend(course, phase, max(usual - elapsed, min(0.1 * elapsed, 0.5 * usual)), now)


def _blend(course: Course, phase: str, expected_s: float, now: datetime) -> float:
    """What is measured now weighs the more, the further the bar has come."""
    bar = course.bars.get(phase)
    if bar is None or phase in course.ended:
        return expected_s
    measured = _pace_left(course, phase, now)
    return expected_s if measured is None else (1 - bar.share) * expected_s + bar.share * measured


def _pace_left(course: Course, phase: str, now: datetime) -> float | None:
    """By the pace of the bar; graphs are captured from the largest down, so that the later ones go quicker."""
    bar = course.bars[phase]
    measured = bar.left_s(now)
    if measured is None or not phase.startswith("capture"):
        return measured
    return measured * (0.4 + 0.6 * bar.share)


def _left(course: Course, known: Known, phase: str, now: datetime) -> Span | None:
    """From starts of the same model with another draft, and from what is typical, for the phases that are to come."""
    names = typical.phases(known.engine, known.draft, course.graphs)
    if phase not in names and not any(name in course.began for name in names if name != "starting"):
        return None
    if not known.alike and "load_weights" not in course.began:
        return None
    load = _loading(course, known, now)
    if load is None:
        return None
    load_s = load.mid + (course.elapsed_s("load_weights", now) if "load_weights" in course.began else 0.0)
    if "load_weights" in course.ended:
        load_s = (course.ended["load_weights"] - course.began["load_weights"]).total_seconds()
    place = names.index(phase) if phase in names else -1
    left = load if place < names.index("load_weights") or phase == "load_weights" else NOTHING
    if phase != "load_weights":
        left += _of_present(course, known, phase, load_s, now)
    for name in names[place + 1 :]:
        if name not in course.began and name != "load_weights":
            left += _expected(known, name, load_s)
    return left


def _expected(known: Known, name: str, load_s: float) -> Span:
    seen = [one.spans[name] for one in known.alike if name in one.spans]
    if seen:
        return Span(min(seen) * (1 - _SPREAD), median(seen), max(seen) * (1 + 2 * _SPREAD))
    return typical.seconds(name, load_s, known.cold, known.draft)


def _loading(course: Course, known: Known, now: datetime) -> Span | None:
    """What is left of reading the weights; bars end before the weights are in place."""
    if "load_weights" in course.ended:
        return NOTHING
    seen = [one.spans["load_weights"] for one in known.alike if "load_weights" in one.spans]
    size = typical.loading(known.weight_bytes)
    usual = Span(min(seen) * 0.7, median(seen), max(seen) * 2) if seen else size
    if "load_weights" not in course.began:
        return usual
    elapsed = course.elapsed_s("load_weights", now)
    bar = course.bars.get("load_weights")
    measured = bar.left_s(now) if bar is not None else None
    if bar is None or measured is None:
        return usual.after(elapsed) if usual else None
    if bar.share >= 1:
        read_s = (bar.marks[-1][0] - course.began["load_weights"]).total_seconds()
        return Span(0, _TAIL * read_s + 0.5, read_s + 5).after(elapsed - read_s)
    tail = _TAIL * (elapsed + measured)
    return Span(0.7 * measured, measured + tail, 1.5 * measured + 4 * tail)


def _of_present(course: Course, known: Known, phase: str, load_s: float, now: datetime) -> Span:
    elapsed = course.elapsed_s(phase, now)
    expected = _expected(known, phase, load_s)
    if phase in course.ended:
        return Span(0.0, 0.5, 2.0)
    bar = course.bars.get(phase)
    if course.is_compiling(now):
        # Nothing moves and nothing is said: what compiled so silently before took about so long.
        steps = typical.seconds(phase, load_s, False, True)
        return Span(5, typical.COMPILE_S, 4 * typical.COMPILE_S).after(elapsed) + steps
    measured = _pace_left(course, phase, now) if bar is not None else None
    if bar is None or measured is None:
        return expected.after(elapsed)
    if bar.done < bar.total and bar.marks[-1][1] <= 1 and elapsed > 5:
        return typical.seconds(phase, load_s, False, True)
    return Span(0.7 * measured, measured, 2 * measured + 1)


def _of_phase(course: Course, phase: str, now: datetime) -> Estimate | None:
    bar = course.bars.get(phase)
    left = bar.left_s(now) if bar is not None and phase not in course.ended else None
    return Estimate(left, left * (1 - _SPREAD), left * (1 + 2 * _SPREAD), "phase") if left is not None else None
