"""Pages of single measurements: a run with its samples, a profile, a training run, a published result."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from markupsafe import Markup

from sitrepd.benchmarks.asking import Asked, decided
from sitrepd.benchmarks.curves import Curve, curves
from sitrepd.benchmarks.metrics import decimals, display_text
from sitrepd.benchmarks.profiles.found import mean_ms, shares, total_ms
from sitrepd.benchmarks.published import references_beside
from sitrepd.benchmarks.statistics import mean_interval, outlier, sample
from sitrepd.benchmarks.tables import interval, meaning
from sitrepd.benchmarks.trainings.best import Place, best, chosen, drawn, places
from sitrepd.dashboard.view import View

_MOST_DRAWN = 2000
_MOST_POINTS, _MOST_CURVES = 60, 6
_MODE = re.compile(r"^(?:train|eval|val|valid|validation)[/_]")


def benchmark(view: View, told: Any) -> dict[str, Any]:
    """Its figures, its samples with their mean, and what the comparison of its session says of it."""
    return {
        "metrics": [(name, display_text(one.value), one) for name, one in sorted(told.metrics.items())],
        "samples": [_samples(name, values) for name, values in told.samples.items() if values],
        "judged": _judged(view, told.id),
    }


def _samples(name: str, values: list[Any]) -> dict[str, Any]:
    numbers = [float(value) for value in values]
    places = max(decimals(value) for value in values)
    found = sample(numbers, 10.0**-places)
    around = mean_interval(found)
    odd = outlier(numbers)
    drawn = numbers[:_MOST_DRAWN]
    line = Curve(name, [(float(at + 1), value) for at, value in enumerate(drawn)])
    level = (found.mean, f"mean {found.mean:.{places + 1}f}")
    return {
        "name": name,
        "values": values,
        "mean": f"{found.mean:.{places + 1}f}",
        "around": None if around is None else " to ".join(f"{edge:.{places + 1}f}" for edge in around),
        "outlier": None if odd is None else odd + 1,
        "drawing": Markup(curves(f"{name} by sample", "sample", name, [line], level).svg()) if len(drawn) > 1 else "",
    }


def _judged(view: View, public_id: str) -> tuple[Any, str, str, str] | None:
    """(row, what it means, interval, metric) of the row that the run stands in."""
    if view.session_id is None:
        return None
    found = decided(view.db, view.registry, view.session_id, Asked())
    for row, one in zip(found.comparison.rows, found.rows, strict=True):
        if public_id in row.ids:
            return row, meaning(row, one), interval(one.verdict), found.comparison.metric
    return None


def profile(view: View, told: Any) -> dict[str, Any]:  # noqa: ARG001
    """Its phases by group, with their shares."""
    phases = [one.model_dump() for one in told.phases]
    rows = [
        {**phase, "share": share, "total_ms": total_ms(phase), "mean_ms": mean_ms(phase)}
        for phase, share in zip(phases, shares(phases), strict=True)
    ]
    groups = dict.fromkeys(row["group"] for row in rows)
    return {"groups": [(group, [row for row in rows if row["group"] == group]) for group in groups]}


def training(view: View, told: Any) -> dict[str, Any]:  # noqa: ARG001
    """Its points, the best of them, and a curve of each metric that has several."""
    points = places(told.points)
    names = list(dict.fromkeys(name for point in points for name in point.metrics))
    several = [name for name in names if sum(name in point.metrics for point in points) > 1]
    first = [name for name in (chosen(points), *several) if name in several]
    drawings: dict[str, Markup] = {}
    for name in dict.fromkeys(first):
        of = _MODE.sub("", name)
        if of not in drawings and len(drawings) < _MOST_CURVES:
            drawings[of] = Markup(drawn(points, name).svg())
    shown = points if len(points) <= _MOST_POINTS else [*points[: _MOST_POINTS // 2], *points[-_MOST_POINTS // 2 :]]
    table = [(point, _epoch(point), [_value(point, name) for name in names]) for point in shown]
    left_out = len(points) - len(shown)
    return {"names": names, "rows": table, "left_out": left_out, "best": best(points), "drawings": drawings}


def _epoch(point: Place) -> str:
    return "–" if point.epoch is None else display_text(point.epoch)


def _value(point: Place, name: str) -> str:
    return display_text(point.metrics[name].value) if name in point.metrics else ""


def reference(view: View, told: Any) -> dict[str, Any]:
    """What of one's own stands beside it."""
    found = references_beside(view.db, view.registry, view.session_id, [int(told.id[1:])])
    return {"beside": found[0] if found else None}


PAGES: Mapping[str, Callable[[View, Any], dict[str, Any]]] = {
    "benchmark": benchmark,
    "profile": profile,
    "training": training,
    "reference": reference,
}
"""By the word of the noun, which is the name of the template too."""
