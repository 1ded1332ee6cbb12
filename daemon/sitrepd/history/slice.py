"""The history slice, as the registry sees it: search, timeline, comparison, retention. It has no facts of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sitrepd.slices import Slice

if TYPE_CHECKING:
    from fastapi import APIRouter

    from sitrepd.runtime import Runtime
    from sitrepd.services import Service


def _routers() -> Sequence[APIRouter]:
    from sitrepd.history.routes import routers

    return routers()


def _services(runtime: Runtime) -> Sequence[Service]:
    from sitrepd.history.retention import Retention

    return (Retention(runtime),)


SLICE = Slice("history", routers=_routers, services=_services)
