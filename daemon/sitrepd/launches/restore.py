"""Launches and their commands, from the sections of a checkpoint that `report` makes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sitrepd.restoring import Line, told
from sitrepd.sections import Section


def restore(section: Section) -> Iterable[Line]:
    """The commands of all sections, and what launches say of their phases in words of a checkpoint."""
    for item in section.items:
        if item.get("kind") == "command" and isinstance(item.get("launch"), str):
            yield told(type="launch", key=item["launch"], command=item.get("command"), cwd=item.get("cwd"))
        elif section.name in ("now", "launches") and item.get("kind") in ("launch", "failure"):
            phases = [_phase(one) for one in item.get("phases") or []]
            yield told(type="launch", key=item["id"], phases=phases, from_launch=item.get("repeats"))


def _phase(one: Mapping[str, Any]) -> Line:
    """Times are printed to the second, what a phase took to a tenth: that is kept beside them."""
    names = ("name", "started_at", "ended_at")
    return told(**{name: one.get(name) for name in names}, elapsed_s=one.get("took_s"))
