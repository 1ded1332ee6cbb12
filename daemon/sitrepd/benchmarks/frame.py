"""The frame that charts are drawn in: axes, their numbers, and words that keep clear of each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sitrepd.benchmarks.drawing import FAINT, INK, MUTED, Drawing, Line, Point, Words

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 72, 20, 40, 56
_LABEL = 44
_LETTER = 6.6
_BESIDE = tuple((dx, dy, anchor) for dy in (-7, 16, -21, 30, -35, 44) for dx, anchor in ((8, "start"), (-8, "end")))
Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Frame:
    """Where values stand on the drawing."""

    xs: Sequence[float]
    ys: Sequence[float]

    def place(self, x: float, y: float) -> Point:
        across = (x - self.xs[0]) / (self.xs[-1] - self.xs[0])
        up = (y - self.ys[0]) / (self.ys[-1] - self.ys[0])
        return (
            LEFT + across * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM),
        )


def roomy(values: Sequence[float]) -> tuple[float, float]:
    """The least and the greatest, with room above for the words of what stands there."""
    low, high = min(values), max(values)
    return low, high + (high - low) * 0.06


def blank(title: str) -> Drawing:
    return Drawing(WIDTH, HEIGHT, title, [Words((LEFT, 22), title, INK, bold=True)])


def framed(
    drawing: Drawing, xs: Sequence[float], ys: Sequence[float], under: str, beside: str, names: Sequence[str] = ()
) -> Frame:
    """Grid, numbers and the names of both axes; `names` stand for 0, 1, 2, … of the first."""
    frame = Frame(xs, ys)
    for y in ys:
        place = frame.place(xs[0], y)
        drawing.shapes.append(Line([place, frame.place(xs[-1], y)], FAINT))
        drawing.shapes.append(Words((LEFT - 8, place[1] + 4), f"{y:.6g}", MUTED, "end"))
    for x, name in [(float(at), name) for at, name in enumerate(names)] or [(x, f"{x:.6g}") for x in xs]:
        at = frame.place(x, ys[0])
        drawing.shapes.append(Line([at, (at[0], at[1] + 4)], MUTED))
        drawing.shapes.append(Words((at[0], at[1] + 18), name, MUTED, "middle"))
    corner = frame.place(xs[0], ys[0])
    drawing.shapes.append(Line([frame.place(xs[0], ys[-1]), corner, frame.place(xs[-1], ys[0])], MUTED))
    drawing.shapes.append(Words((WIDTH - RIGHT, HEIGHT - 22), under, MUTED, "end"))
    drawing.shapes.append(Words((WIDTH - RIGHT, 22), beside, MUTED, "end"))
    return frame


def free(place: Point, text: str, colour: str, taken: list[Box]) -> Words:
    """Words beside a dot, where no others stand and the edge is not passed; to its right or left where all is taken."""
    x, y = place
    width = _LETTER * len(text)
    best: tuple[int, Words, Box] | None = None
    for dx, dy, anchor in _BESIDE:
        left = x + dx - (width if anchor == "end" else 0)
        box = (left, y + dy - 11, left + width, y + dy + 3)
        faults = sum(_overlap(box, other) for other in taken)
        faults += 100 * (left < 0 or left + width > WIDTH or box[1] < TOP - 12 or box[3] > HEIGHT - BOTTOM + 8)
        if best is None or faults < best[0]:
            best = (faults, Words((x + dx, y + dy), text, colour, anchor), box)
        if best[0] == 0:
            break
    assert best is not None
    taken.append(best[2])
    return best[1]


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def beside(place: Point, text: str, colour: str, bold: bool = False) -> Words:
    """Words to the right of a dot, or to the left where the edge is near."""
    right = place[0] > WIDTH * 0.7
    return Words((place[0] + (-8 if right else 8), place[1] - 7), text, colour, "end" if right else "start", bold)


def short(label: str) -> str:
    return label if len(label) <= _LABEL else f"{label[: _LABEL - 2]} …"
