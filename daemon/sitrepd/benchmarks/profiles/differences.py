"""Two profiles side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sitrepd.benchmarks.profiles.found import mean_ms, shares, total_ms


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[dict[str, Any]]:
    """By phase, in the order of the first: [first, second] of each figure, and the change of one call in per cent."""
    sides = [_side(one["phases"]) for one in (first, second)]
    nothing: dict[str, Any] = {"calls": None, "total_ms": None, "mean_ms": None, "share": None}
    rows = []
    for group, name in dict.fromkeys([*sides[0], *sides[1]]):
        found = [side.get((group, name), nothing) for side in sides]
        before, after = (one["mean_ms"] for one in found)
        if before is None or after is None:
            before, after = (one["total_ms"] for one in found)
        row = {key: [one[key] for one in found] for key in ("share", "calls", "mean_ms", "total_ms")}
        change = (after / before - 1) * 100 if before and after is not None else None
        rows.append({"name": name, "group": group, **row, "difference_percent": change})
    return rows


def _side(phases: list[Mapping[str, Any]]) -> dict[tuple[str | None, str], dict[str, Any]]:
    """By group and name; of calls, total and mean, any two give the third."""
    return {
        (phase.get("group"), phase["name"]): {
            "calls": phase.get("calls"), "total_ms": total_ms(phase), "mean_ms": mean_ms(phase), "share": share,
        }
        for phase, share in zip(phases, shares(phases), strict=True)
    }  # fmt: skip
