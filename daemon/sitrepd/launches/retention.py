"""Figures over time are forgotten after the time that the settings give."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

from sitrepd.clock import utc_now
from sitrepd.errors import StoreUnusable
from sitrepd.launches import samples
from sitrepd.runtime import Runtime

_EVERY_S = 3600.0


def schedule(runtime: Runtime) -> None:
    """Now and then again; without a scheduler nothing is forgotten."""
    if runtime.scheduler is None:
        return
    keep_s = runtime.settings.figures_keep_h * 3600
    runtime.scheduler.add_job(
        forget, "interval", [runtime], seconds=min(_EVERY_S, max(1.0, keep_s / 4)), next_run_time=utc_now(),
        id="launches.forget", replace_existing=True, misfire_grace_time=None,
    )  # fmt: skip


async def forget(runtime: Runtime) -> None:
    before = utc_now() - timedelta(hours=runtime.settings.figures_keep_h)
    with suppress(StoreUnusable):
        while await runtime.store.write_async(lambda db: samples.forget(db, before)):
            pass
