"""The history slice, as the registry sees it: search, timeline, comparison, retention. It has no facts of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sitrepd.slices import Slice, late

if TYPE_CHECKING:
    from sitrepd.runtime import Runtime
    from sitrepd.services import Service


def _services(runtime: Runtime) -> Sequence[Service]:
    from sitrepd.history.retention import Retention

    return (Retention(runtime),)


SLICE = Slice("history", routers=late("sitrepd.history.routes", "routers"), services=_services)
