"""The backfill slice, as the registry sees it: it has no facts of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sitrepd.slices import Slice

if TYPE_CHECKING:
    from fastapi import APIRouter


def _routers() -> Sequence[APIRouter]:
    from sitrepd.backfill.routes import routers

    return routers()


SLICE = Slice("backfill", routers=_routers)
