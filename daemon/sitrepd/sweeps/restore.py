"""Sweeps with their trials, from the section of a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable

from sitrepd.restoring import Line, told
from sitrepd.sections import Section

_NAMES = ("launch", "benchmarks", "state", "name", "baseline", "settings", "why")


def restore(section: Section) -> Iterable[Line]:
    """The lines of its section; none of any other."""
    if section.name != "sweeps":
        return
    for item in section.items:
        for trial in item.get("trials") or []:
            yield told(
                type="trial", sweep=item.get("sweep") or item["id"], **{name: trial.get(name) for name in _NAMES}
            )
