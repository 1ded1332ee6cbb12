"""Times of phases in a log: `[EAGLE3_PROFILE] draft=1.21 ms verify=20.5 ms`, or whatever a pattern finds."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from sitrepd.benchmarks.profiles.found import Phase, ProfileError

_LINE = re.compile(r"profil", re.IGNORECASE)
_PAIR = re.compile(r"(?P<name>[A-Za-z_][\w./-]*)\s*[=:]\s*(?P<value>\d+(?:\.\d+)?)\s*(?P<unit>ms|us|µs|ns|s)\b")
_MS = {"s": 1e3, "ms": 1.0, "us": 1e-3, "µs": 1e-3, "ns": 1e-6}


def printed_phases(lines: Iterable[str], pattern: str | None = None) -> list[Phase]:
    """Calls and milliseconds by phase, in the order in which they first come.

    A pattern has the groups `name` and `value`, and may have `unit` (s, ms, us, ns; ms if absent). Without one, pairs
    with a unit count, on the lines that speak of a profile.
    """
    found: dict[str, list[float]] = {}
    finder = _compiled(pattern) if pattern else _PAIR
    for line in lines:
        if pattern is None and not _LINE.search(line):
            continue
        for match in finder.finditer(line):
            told = match.groupdict()
            unit = _MS.get(told.get("unit") or "ms")
            try:
                value = float(told["value"]) * unit if unit is not None else math.nan
            except (TypeError, ValueError):
                continue
            if told["name"] and math.isfinite(value) and value >= 0:
                found.setdefault(told["name"], []).append(value)
    return [
        Phase(name, None, len(values), math.fsum(values), math.fsum(values) / len(values))
        for name, values in found.items()
    ]


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        found = re.compile(pattern)
    except re.error as error:
        raise ProfileError(f"{pattern!r} is no regular expression: {error}.") from error
    if not {"name", "value"} <= found.groupindex.keys():
        raise ProfileError("The pattern needs the groups (?P<name>…) and (?P<value>…).")
    return found
