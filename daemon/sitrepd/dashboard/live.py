"""What moves from second to second: values for the elements of a page, without fetching a part anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sitrepd.clock import utc_now
from sitrepd.dashboard import progress
from sitrepd.dashboard.parts import gpus
from sitrepd.launches.models import Launch
from sitrepd.runtime import Runtime

Values = dict[str, str | float | None]


def values(runtime: Runtime, session_id: int | None) -> Values:
    """By `data-live` name; "title" is the tab's."""
    alive: Mapping[int, Any] = runtime.live.get("launches") or {}
    found: Values = {}
    with runtime.store.read() as db:
        for number, living in sorted(alive.items()):
            launch = db.get(Launch, number)
            if launch is None or launch.session_id != session_id:
                continue
            shown = progress.progress(living)
            found |= shown.values(f"L{number}")
            if shown.state != "ready":
                found["title"] = progress.title(launch.name or f"L{number}", shown)
        observed = [host for host in gpus.hosts_of(db, session_id) if host.machine and host.gpus]
        samples = gpus.latest(db) if observed else {}
        for host in observed:
            for tile in gpus.tiles(host, samples, utc_now()):
                found |= tile.values()
    found.setdefault("title", "")
    return found


def changes(before: Values, after: Values) -> Values:
    """What the page does not show yet; what is gone becomes empty."""
    gone: Values = {name: None for name in before if name not in after}
    return gone | {name: value for name, value in after.items() if before.get(name, ...) != value}
