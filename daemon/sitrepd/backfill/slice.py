"""The backfill slice, as the registry sees it: it has no facts of its own."""

from __future__ import annotations

from sitrepd.slices import Slice, late

SLICE = Slice("backfill", routers=late("sitrepd.backfill.routes", "routers"))
