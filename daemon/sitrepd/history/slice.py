"""The history slice, as the registry sees it: search, timeline, comparison, retention. It has no facts of its own."""

from __future__ import annotations

from sitrepd.slices import Slice

SLICE = Slice("history", routers=lambda: ())
