"""What moves from second to second: values for the elements of a page, without fetching a part anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sitrepd.dashboard import progress
from sitrepd.dashboard.parts import gpus
from sitrepd.hardware.live import LiveHardware
from sitrepd.launches.models import Launch
from sitrepd.runtime import Runtime

Values = dict[str, str | float | None]


def hardware(runtime: Runtime) -> LiveHardware | None:
    known = runtime.live.get("hardware")
    return known if isinstance(known, LiveHardware) else None


def values(runtime: Runtime, session_id: int | None) -> Values:
    """By `data-live` name; "title" is the tab's."""
    found: Values = {"title": ""}
    known = hardware(runtime)
    for tile in gpus.tiles(known, runtime.live.get("gpu_leaks")) if known else ():
        found |= tile.values()
    alive: Mapping[int, Any] = runtime.live.get("launches") or {}
    if not alive:
        return found
    with runtime.store.read() as db:
        for number, living in sorted(alive.items()):
            launch = db.get(Launch, number)
            if launch is None or launch.session_id != session_id:
                continue
            shown = progress.progress(living)
            found |= shown.values(f"L{number}")
            if shown.state != "ready":
                found["title"] = progress.title(launch.name or f"L{number}", shown)
    return found


def changes(before: Values, after: Values) -> Values:
    """What the page does not show yet; what is gone becomes empty."""
    gone: Values = {name: None for name in before if name not in after}
    return gone | {name: value for name, value in after.items() if before.get(name, ...) != value}
