"""Which living server writes to a log already: what two servers write to one file can be told apart by nobody."""

from __future__ import annotations

import os
from pathlib import Path

from sqlmodel import Session, col, select

from sitrepd.errors import Conflict
from sitrepd.launches.models import ALIVE, Launch
from sitrepd.launches.start import Plan
from sitrepd.storage import ids


def still_writes(row: Launch) -> bool:
    return row.watched and row.ended_at is None and row.state in ALIVE


def refuse_a_shared_log(db: Session, plan: Plan) -> None:
    """Raise Conflict where the launch would write to the log of a living one; a device such as /dev/null is no log."""
    wanted = {os.path.realpath(path) for path in _logs_of(plan) if path.is_file()}
    if not wanted:
        return
    living = select(Launch).where(col(Launch.watched), col(Launch.ended_at).is_(None), col(Launch.state).in_(ALIVE))
    for row in db.exec(living):
        told = [row.log_path, *(log.get("path") for log in (row.process or {}).get("logs", ()))]
        shared = next((path for path in told if path and os.path.realpath(path) in wanted), None)
        if shared:
            public = ids.public_id("L", row.id or 0)
            raise Conflict(
                f"{public} still writes to {shared}: nobody could tell the two servers' lines apart. Give the new one "
                f"another file, or stop {public} first.",
                launch=public,
            )


def _logs_of(plan: Plan) -> list[Path]:
    shell = plan.shell
    told = [shell.log_path, shell.stderr_path] if shell else []
    if not any(told):
        told = [plan.body.log_path]
    return [plan.cwd / Path(path).expanduser() for path in told if path]
