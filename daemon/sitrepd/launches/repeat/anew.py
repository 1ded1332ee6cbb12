"""A stored launch started anew: its log kept where the new one would empty it, its notes written down."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlmodel import Session

from sitrepd.launches import start as starting
from sitrepd.launches.models import Launch
from sitrepd.launches.repeat import again
from sitrepd.launches.service import Launches
from sitrepd.runtime import Runtime


@dataclass(frozen=True)
class Started:
    """The number of the new launch, and what spoke against it."""

    number: int
    against: list[Any]


async def start(
    runtime: Runtime, row: Launch, plan: again.Again, session_id: int | None, teller: str, number: int | None = None
) -> Started:
    """`number` is that of the new launch where it was given out before."""
    kept = await asyncio.to_thread(_keep_log, row, plan)
    service: Launches = runtime.live["launch_service"]
    from sitrepd.launches.check.run import before_a_launch

    against = await before_a_launch(runtime, plan.body, session_id, teller.removeprefix("told:"))
    try:
        made = await service.start(plan.body, session_id, teller, number)
    except Exception:
        if kept is not None:
            await asyncio.to_thread(kept[1].rename, kept[0])
        raise
    await runtime.store.write_async(lambda db: _noted(db, made, row.id or 0, plan.notes, kept))
    runtime.activity.touch(session_id)
    return Started(made, against)


def _keep_log(row: Launch, plan: again.Again) -> tuple[Path, Path] | None:
    """Move the log of the earlier launch aside where the new one would empty it: (where it was, where it is)."""
    planned = starting.plan(plan.body)
    shell = planned.shell
    told = (shell.stderr_path or shell.log_path) if shell else None
    append = (shell.stderr_append if shell.stderr_path else shell.append) if shell and told else True
    log = Path(told) if told else None
    kept = again.keep_log(row, log, append=append)
    if log is None or kept is None:
        return None
    if log.is_file():
        log.rename(kept)
    return log, kept


def _noted(db: Session, number: int, earlier: int, notes: tuple[str, ...], kept: tuple[Path, Path] | None) -> None:
    row, before = db.get(Launch, number), db.get(Launch, earlier)
    if row is not None and notes:
        row.warnings = [*row.warnings, *notes]
        db.add(row)
    if before is not None and kept is not None:
        before.log_path = str(kept[1])
        db.add(before)
