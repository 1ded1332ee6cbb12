"""Curves of one metric: over the epochs or steps of training runs, or over the samples of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sitrepd.benchmarks.drawing import COLOURS, INK, MUTED, Dot, Drawing, Line, Words, ticks
from sitrepd.benchmarks.frame import LEFT, TOP, beside, blank, framed, roomy, short

Place = tuple[float, float]
_FEW = 60


@dataclass(frozen=True)
class Curve:
    """`best` is the place of the point that is marked, with its words."""

    label: str
    points: Sequence[Place]
    best: tuple[int, str] | None = None
    joined: bool = True


def curves(
    title: str, under: str, unit: str, lines: Sequence[Curve], level: tuple[float, str] | None = None
) -> Drawing:
    """Lines over one axis; `level` is a dashed one across with its words."""
    xs = [x for line in lines for x, _ in line.points]
    ys = [y for line in lines for _, y in line.points] + ([level[0]] if level else [])
    drawing = blank(title)
    frame = framed(drawing, ticks(min(xs), max(xs)), ticks(*roomy(ys)), under, unit)
    if level is not None:
        edges = [frame.place(x, level[0]) for x in (frame.xs[0], frame.xs[-1])]
        drawing.shapes.append(Line(edges, MUTED, 1.2, True))
        drawing.shapes.append(Words((edges[1][0], edges[1][1] - 5), level[1], MUTED, "end"))
    for at, line in enumerate(lines):
        colour = COLOURS[at % len(COLOURS)]
        places = [frame.place(x, y) for x, y in line.points]
        if line.joined:
            drawing.shapes.append(Line(places, colour, 1.8))
        if len(places) <= _FEW:
            drawing.shapes += [Dot(place, colour, 2.5 if line.joined else 4.5) for place in places]
        if line.best is not None:
            number, words = line.best
            drawing.shapes.append(Dot(places[number], colour, 5))
            # Below the lowest point, since the line comes from above.
            down = 28.0 if line.points[number][1] <= min(y for _, y in line.points) else 0.0
            drawing.shapes.append(beside((places[number][0], places[number][1] + down), words, INK, True))
        if len(lines) > 1:
            drawing.shapes.append(Dot((LEFT + 14, TOP + 14 + at * 17), colour))
            drawing.shapes.append(Words((LEFT + 24, TOP + 18 + at * 17), short(line.label)))
    return drawing
