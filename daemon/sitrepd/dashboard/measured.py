"""Pages of single measurements: a run with its samples, a profile, a training run, a published result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from markupsafe import Markup

from sitrepd.benchmarks.comparing import Asked, decided
from sitrepd.benchmarks.curves import Curve, curves
from sitrepd.benchmarks.metrics import decimals, display_text
from sitrepd.benchmarks.profiles.found import mean_ms, shares, total_ms
from sitrepd.benchmarks.statistics import mean_interval, outlier, sample
from sitrepd.benchmarks.tables import interval, meaning
from sitrepd.dashboard.view import View

_MOST_DRAWN = 2000


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


PAGES: Mapping[str, Callable[[View, Any], dict[str, Any]]] = {"benchmark": benchmark, "profile": profile}
"""By the word of the noun, which is the name of the template too."""
