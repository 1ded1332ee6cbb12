"""Stacks from a checkpoint, which tells equal ones once."""

from __future__ import annotations

from collections.abc import Iterable

from sitrepd.restoring import Line, reference, told
from sitrepd.sections import Section

_FIELDS = ("packages", "driver", "cuda", "python", "os", "git")


def restore(section: Section) -> Iterable[Line]:
    """One line for each id, with its launch where each has one."""
    for item in section.items if section.name == "stack" else ():
        launches = item.get("launches") or []
        same = {name: item.get(name) for name in _FIELDS}
        for place, key in enumerate(item["ids"]):
            launch = launches[place] if len(launches) == len(item["ids"]) else None
            yield told(type="stack", key=key, launch=launch, host=reference(item.get("host")), **same)
