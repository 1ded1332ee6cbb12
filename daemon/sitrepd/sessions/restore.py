"""Next steps from a checkpoint, whose `order` is their place in the text."""

from __future__ import annotations

from collections.abc import Iterable

from sitrepd.restoring import Line, told
from sitrepd.sections import Section


def restore(section: Section) -> Iterable[Line]:
    if section.name == "next_steps":
        for item in section.items:
            yield told(type="next_step", key=item["id"], order=item.get("place"))
