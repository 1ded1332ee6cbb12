"""HTTP of sweeps."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter

from sitrepd.routing import fact_routes
from sitrepd.sweeps.slice import SLICE


def routers() -> Sequence[APIRouter]:
    return [fact_routes(noun) for noun in SLICE.nouns]
