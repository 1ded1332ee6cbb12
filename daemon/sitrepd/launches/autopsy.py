"""What becomes of a launch that has failed: its log is diagnosed, and a finding says why it failed."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sqlmodel import Session, col, select

from sitrepd import redact
from sitrepd.clock import iso, utc_now
from sitrepd.facts import Scope, create
from sitrepd.launches.ends import LOOKED_INTO
from sitrepd.launches.engines.base import CommandFacts
from sitrepd.launches.kernel_log import kernel_messages
from sitrepd.launches.launchers.base import Exit
from sitrepd.launches.models import Launch
from sitrepd.storage import events, ids

if TYPE_CHECKING:
    from sitrepd.launches.diagnosis import Diagnosis
    from sitrepd.slices import Registry

log = logging.getLogger(__name__)
_VAGUE = ("The server failed", "A worker failed", "The engine waited in vain")
"""What only says that something failed, or repeats an exception that the launch tells already."""
_MARK = "diagnosed_at"
_RECENT = timedelta(days=1)
_AFTERWARDS = timedelta(seconds=10)
_MOST_TITLE = 200
_QUOTED = 5


def is_due(launch: Launch) -> bool:
    """Whether it has failed and nobody has looked into it yet."""
    process = launch.process or {}
    dead = launch.state == "failed" or (
        launch.state == "lost" and bool(process.get("adopted") or process.get("handed_over"))
    )
    return dead and launch.watched and _MARK not in process


def left_over(db: Session) -> list[int]:
    """Failed launches that a daemon which died had no time for."""
    query = select(Launch).where(col(Launch.state).in_(("failed", "lost")), col(Launch.watched).is_(True))
    rows = db.exec(query.where(col(Launch.ended_at) > utc_now() - _RECENT)).all()
    return [row.id for row in rows if row.id is not None and is_due(row)]


@dataclass(frozen=True)
class Beside:
    """What is known beside the log; GPU memory is that of others, in bytes by pid, and phases are in seconds."""

    ended: Exit | None = None
    facts: CommandFacts | None = None
    gpu_memory: Mapping[int, int] = field(default_factory=dict)
    usual_s: Mapping[str, float] = field(default_factory=dict)


def examine(launch: Launch, beside: Beside) -> Diagnosis | None:
    """None where there is no log that can be read; it may take seconds, for the log of days."""
    if not launch.log_path or (launch.process or {}).get("log_form"):
        return None
    from sitrepd.launches.diagnosis import diagnose

    began = launch.started_at or launch.at
    kernel = kernel_messages(began, (launch.ended_at or utc_now()) + _AFTERWARDS)
    begin = (launch.process or {}).get("log_begin") or 0
    try:
        return diagnose(
            launch.log_path, begin=begin, exit=beside.ended, kernel_messages=kernel, facts=beside.facts,
            gpu_memory=beside.gpu_memory, usual_s=beside.usual_s,
        )  # fmt: skip
    except OSError as error:
        log.info("%s cannot be diagnosed: %s", launch.log_path, error)
    except Exception:  # what is told of the end waits for this
        log.exception("%s cannot be diagnosed", launch.log_path)
    return None


def exit_of(launch: Launch) -> Exit | None:
    """How a stored launch ended."""
    if launch.exit_code is None and launch.exit_signal is None:
        return None
    return Exit(known=True, exit_code=launch.exit_code, signal=launch.exit_signal, ended_at=launch.ended_at)


def record(db: Session, registry: Registry, number: int, told: Diagnosis | None) -> None:
    """Write the finding, once for a launch, and make its summary the launch's failure."""
    launch = db.get(Launch, number)
    if launch is None or not is_due(launch):
        return
    launch.process = {**(launch.process or {}), _MARK: iso(utc_now())}
    db.add(launch)
    found = _conclude(db, registry, launch, told) if told is not None and told.category is not None else {}
    data = {LOOKED_INTO: True, "ended_as": launch.state, **found}
    events.record(db, "launch.changed", ids.public_id("L", number), launch.session_id, **data)


def _conclude(db: Session, registry: Registry, launch: Launch, told: Diagnosis) -> dict[str, Any]:
    """What the event tells of it; nothing where nobody saw the end and the log is not sure either."""
    failed = told.state == "failed"
    sure, more = failed and told.category != "unknown", {}
    said = sure or (failed and not told.summary.startswith(_VAGUE))
    if launch.state == "lost":
        if not said:
            return {}
        launch.state, more = "failed", {"state": "failed", "before": "lost"}
    if said:
        launch.failure = redact.redact_text(told.summary)
    _find(db, registry, launch, ids.public_id("L", launch.id or 0), told, sure)
    return {"ended_as": launch.state, "failure": launch.failure, "category": told.category, **more}


def _find(db: Session, registry: Registry, launch: Launch, public: str, told: Diagnosis, sure: bool) -> None:
    title = launch.failure or told.summary
    detail = " ".join(part for part in (told.cause, f"Fix: {told.fix}" if told.fix else "") if part)
    noun = registry.by_word["finding"]
    body = noun.create(
        **{
            "kind": "root_cause" if sure else "observation",
            "title": _short(title),
            "detail": detail,
            "status": "open",
            "evidence": [public, *_quoted(told)],
        }
    )
    create(db, noun, body, Scope(registry, "observed", launch.session_id))


def _quoted(told: Diagnosis) -> Sequence[str]:
    return [f"log line {one.line}: {one.text}" if one.line else one.text for one in told.evidence[:_QUOTED]]


def _short(text: str) -> str:
    return text if len(text) <= _MOST_TITLE else text[: _MOST_TITLE - 1] + "…"


def begin_of(columns: dict[str, Any]) -> dict[str, int]:
    """Where in an appended log the launch begins, to be kept with its process."""
    position = columns.get("log_position")
    return {"log_begin": int(position["offset"])} if position else {}
