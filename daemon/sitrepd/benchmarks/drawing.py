"""Drawings of lines, dots and words, as SVG or PNG."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from typing import Any

Point = tuple[float, float]
COLOURS = ("#2563eb", "#d97706", "#059669", "#dc2626", "#7c3aed", "#0891b2", "#be185d", "#4d7c0f")
INK, MUTED, FAINT = "#1f2937", "#6b7280", "#e5e7eb"
_TEXT_PX = 12
_SCALE = 2


@dataclass(frozen=True)
class Line:
    points: Sequence[Point]
    colour: str = INK
    width: float = 1.0
    dashed: bool = False


@dataclass(frozen=True)
class Dot:
    at: Point
    colour: str = INK
    radius: float = 3.5
    hollow: bool = False


@dataclass(frozen=True)
class Words:
    """`anchor` says which end of the words stands at the place: start, middle or end."""

    at: Point
    text: str
    colour: str = INK
    anchor: str = "start"
    bold: bool = False


@dataclass
class Drawing:
    """In pixels, y downwards."""

    width: int
    height: int
    title: str
    shapes: list[Line | Dot | Words] = field(default_factory=list)

    def svg(self) -> str:
        """A whole SVG document that needs nothing from outside."""
        body = "".join(map(_svg, self.shapes))
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
            f'height="{self.height}" role="img" font-family="system-ui, sans-serif" font-size="{_TEXT_PX}">'
            f"<title>{escape(_printable(self.title))}</title>"
            f'<rect width="100%" height="100%" fill="#ffffff"/>{body}</svg>\n'
        )

    def png(self) -> bytes:
        """The same at twice the resolution."""
        from PIL import Image, ImageDraw, ImageFont

        # Drawn at twice the size once more and made smaller, which smooths the lines.
        fine = 2 * _SCALE
        image = Image.new("RGB", (self.width * fine, self.height * fine), "#ffffff")
        pen = ImageDraw.Draw(image)
        font = ImageFont.load_default(_TEXT_PX * fine)
        for shape in self.shapes:
            _draw(pen, shape, fine, font)
        image = image.resize((self.width * _SCALE, self.height * _SCALE), Image.Resampling.LANCZOS)
        out = io.BytesIO()
        image.save(out, "PNG", optimize=True)
        return out.getvalue()


def _svg(shape: Line | Dot | Words) -> str:
    if isinstance(shape, Line):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in shape.points)
        dashes = ' stroke-dasharray="5 4"' if shape.dashed else ""
        return (
            f'<polyline points="{points}" fill="none" stroke="{shape.colour}" stroke-width="{shape.width:g}"{dashes}/>'
        )
    x, y = shape.at
    if isinstance(shape, Dot):
        fill = "#ffffff" if shape.hollow else shape.colour
        return (
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{shape.radius:g}" fill="{fill}" stroke="{shape.colour}" '
            'stroke-width="1.5"/>'
        )
    weight = ' font-weight="600"' if shape.bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{shape.colour}" text-anchor="{shape.anchor}"{weight}>'
        f"{escape(_printable(shape.text))}</text>"
    )


def _draw(pen: Any, shape: Line | Dot | Words, scale: int, font: Any) -> None:
    if isinstance(shape, Line):
        points = [(x * scale, y * scale) for x, y in shape.points]
        for piece in _dashes(points, scale) if shape.dashed else [points]:
            pen.line(piece, fill=shape.colour, width=max(1, round(shape.width * scale)), joint="curve")
        return
    x, y = shape.at[0] * scale, shape.at[1] * scale
    if isinstance(shape, Dot):
        radius = shape.radius * scale
        fill = "#ffffff" if shape.hollow else shape.colour
        pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill, shape.colour, round(1.5 * scale))
        return
    anchor = {"start": "ls", "middle": "ms", "end": "rs"}[shape.anchor]
    pen.text((x, y), _printable(shape.text), fill=shape.colour, font=font, anchor=anchor)


def _dashes(points: Sequence[Point], scale: int) -> Iterable[list[Point]]:
    for (x0, y0), (x1, y1) in pairwise(points):
        length = math.hypot(x1 - x0, y1 - y0)
        count = max(1, round(length / (9 * scale)))
        for at in range(count):
            begin, end = at / count, (at + 0.55) / count
            yield [(x0 + (x1 - x0) * part, y0 + (y1 - y0) * part) for part in (begin, end)]


def _printable(text: str) -> str:
    """Without the control characters that XML forbids."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Round numbers from below `low` to above `high`."""
    span = high - low or abs(high) or 1.0
    raw = span / wanted
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * times for times in (1, 2, 2.5, 5, 10) if unit * times >= raw * 0.999)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, max(last, first + 1) + 1)]
