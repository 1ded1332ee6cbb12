"""Charts of a comparison: a curve over a setting, percentiles of latency, and the Pareto front."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Literal

from sitrepd.benchmarks.compare import Row
from sitrepd.benchmarks.decide import Decided, Decision, latency_percentiles
from sitrepd.benchmarks.drawing import COLOURS, INK, MUTED, Dot, Drawing, Line, Words, ticks
from sitrepd.benchmarks.frame import HEIGHT, LEFT, TOP, Box, Frame, beside, blank, framed, free, roomy, short
from sitrepd.benchmarks.labels import STEPS
from sitrepd.errors import InvalidFact

Kind = Literal["curve", "latency", "pareto"]
_MOST = 40
_LEGEND = 8


def chart(told: Decision, kind: Kind, setting: str | None = None) -> Drawing:
    """InvalidFact says what is missing where there is nothing to draw."""
    if kind == "curve":
        return _curve(told, setting)
    return _latency(told) if kind == "latency" else _pareto(told)


def _curve(told: Decision, setting: str | None) -> Drawing:
    key = setting or _number_setting(told)
    rows = (
        [] if key is None else [pair for pair in _pairs(told) if _number(pair[0].runs[0].config.get(key)) is not None]
    )
    if not rows or key is None:
        what = f"the setting {key}" if key else "a setting with numbers that differ"
        raise InvalidFact(f"No curve can be drawn: no run has {what}.")
    baseline = told.comparison.baseline
    rows.sort(key=lambda pair: float(pair[0].runs[0].config[key]))
    xs = [float(row.runs[0].config[key]) for row, _ in rows]
    lows = [one.verdict.mean_low if one.verdict.mean_low is not None else float(row.value) for row, one in rows]
    highs = [one.verdict.mean_high if one.verdict.mean_high is not None else float(row.value) for row, one in rows]
    level = [float(baseline.value)] if baseline else []
    comparison = told.comparison
    drawing = blank(f"{comparison.metric} over {key}")
    axis_x = _whole_ticks(xs)
    frame = framed(drawing, axis_x, ticks(*roomy(lows + highs + level)), key, _unit(told))
    if baseline is not None:
        drawing.shapes.append(Line([frame.place(x, level[0]) for x in (axis_x[0], axis_x[-1])], MUTED, 1.2, True))
        at = frame.place(axis_x[-1], level[0])
        drawing.shapes.append(Words((at[0], at[1] - 5), f"baseline {baseline.text}", MUTED, "end"))
    drawing.shapes.append(
        Line([frame.place(x, float(row.value)) for x, (row, _) in zip(xs, rows, strict=True)], COLOURS[0], 1.8)
    )
    for x, (row, one), low, high in zip(xs, rows, lows, highs, strict=True):
        _error_bar(drawing, frame, x, low, high)
        place = frame.place(x, float(row.value))
        drawing.shapes.append(Dot(place, COLOURS[0], 4.5 if row.best else 3.5, one.verdict.count < 2))
        drawing.shapes.append(beside(place, row.text, INK, row.best))
    drawing.shapes.append(Words((LEFT, HEIGHT - 8), "bars: 95 % intervals of the mean; hollow: one run", MUTED))
    return drawing


def _error_bar(drawing: Drawing, frame: Frame, x: float, low: float, high: float) -> None:
    if high <= low:
        return
    (at, bottom), (_, top) = frame.place(x, low), frame.place(x, high)
    drawing.shapes.append(Line([(at, bottom), (at, top)], COLOURS[0]))
    drawing.shapes += [Line([(at - 4, y), (at + 4, y)], COLOURS[0]) for y in (bottom, top)]


def _latency(told: Decision) -> Drawing:
    found = [(row, latency_percentiles(row)) for row, _ in _pairs(told)]
    what = next((name for name in ("e2e_latency", "e2el", "ttft", "tpot", "itl") if any(
        len(one.get(name, ())) > 1 for _, one in found)), None)  # fmt: skip
    if what is None:
        raise InvalidFact("No percentiles can be drawn: no run has two of median, p90, p95, p99 of a latency.")
    rows = [(row, one[what]) for row, one in found if what in one][:_LEGEND]
    names = [
        name for name in ("median", "p50", "p90", "p95", "p99") if any(name == p for _, one in rows for p, _, _ in one)
    ]
    values = [value for _, one in rows for _, value, _ in one]
    drawing = blank(f"Percentiles of {what}")
    frame = framed(drawing, [-0.5, len(names) - 0.5], ticks(0, max(values)), "percentile", "ms", names)
    for at, (row, one) in enumerate(rows):
        points = [frame.place(names.index(name), value) for name, value, _ in one]
        colour = COLOURS[at % len(COLOURS)]
        drawing.shapes.append(Line(points, colour, 1.8))
        drawing.shapes += [Dot(point, colour) for point in points]
        drawing.shapes.append(Dot((LEFT + 14, TOP + 14 + at * 17), colour))
        drawing.shapes.append(Words((LEFT + 24, TOP + 18 + at * 17), short(row.label)))
    return drawing


def _pareto(told: Decision) -> Drawing:
    rows = [(row, one) for row, one in _pairs(told) if one.throughput is not None and one.latency is not None]
    if not rows or told.latency is None:
        raise InvalidFact("No Pareto front can be drawn: no run has both output_throughput and a latency.")
    xs, ys = [one.throughput or 0.0 for _, one in rows], [one.latency or 0.0 for _, one in rows]
    drawing = blank(f"{told.latency} against output_throughput")
    frame = framed(drawing, ticks(min(xs), max(xs)), ticks(min(ys), max(ys)), "output_throughput, tok/s", told.latency)
    best = sorted((x, y) for x, y, (_, one) in zip(xs, ys, rows, strict=True) if one.pareto)
    drawing.shapes.append(Line([frame.place(x, y) for x, y in best], COLOURS[2], 1.8))
    dots = [frame.place(x, y) for x, y in zip(xs, ys, strict=True)]
    taken: list[Box] = [(x - 3, y - 3, x + 3, y + 3) for x, y in dots]
    # What is on the front chooses first.
    for x, y, (row, one) in sorted(zip(xs, ys, rows, strict=True), key=lambda told: not told[2][1].pareto):
        place = frame.place(x, y)
        drawing.shapes.append(Dot(place, COLOURS[2] if one.pareto else MUTED))
        drawing.shapes.append(free(place, short(row.label), INK if one.pareto else MUTED, taken))
    return drawing


def _pairs(told: Decision) -> list[tuple[Row, Decided]]:
    """The rows that are compared, the latest where they are many; marked ones only where all are."""
    every = zip(told.comparison.rows, told.rows, strict=True)
    pairs = [(row, one) for row, one in every if row.comparable and not row.superseded and row.why is None]
    return ([pair for pair in pairs if not pair[0].marked] or pairs)[-_MOST:]


def _number_setting(told: Decision) -> str | None:
    keys = [STEPS, *told.keys] if STEPS in told.keys else list(told.keys)
    return next((key for key in keys if sum(_number(one.settings.get(key)) is not None for one in told.rows) > 1), None)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else None


def _whole_ticks(xs: Sequence[float]) -> list[float]:
    if all(x.is_integer() for x in xs) and max(xs) - min(xs) <= 12:
        return (
            [float(x) for x in range(int(min(xs)), int(max(xs)) + 1)]
            if max(xs) > min(xs)
            else [xs[0] - 1, xs[0], xs[0] + 1]
        )
    return ticks(min(xs), max(xs))


def _unit(told: Decision) -> str:
    comparison = told.comparison
    return f"{comparison.metric}, {comparison.unit}" if comparison.unit else comparison.metric
