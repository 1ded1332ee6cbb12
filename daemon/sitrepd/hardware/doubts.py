"""Anomalies as findings to confirm: one of a kind and session, told when it begins, grows and is over."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlmodel import Session, col, select

from sitrepd import facts
from sitrepd.clock import iso
from sitrepd.facts import Scope
from sitrepd.findings.models import Finding, FindingUpdate
from sitrepd.hardware.anomalies import Anomaly
from sitrepd.launches.models import Launch
from sitrepd.sessions import current
from sitrepd.slices import Registry
from sitrepd.storage import ids

_OVER = " Over since "
_PREFIX = "observed:gpu "
_MOST_EVIDENCE = 20


def sessions_of(db: Session, anomaly: Anomaly) -> list[int]:
    """That of the launch on these GPUs; otherwise all that are open, save imported ones, which ran who knows where."""
    launch = db.get(Launch, anomaly.launch) if anomaly.launch else None
    if launch is not None:
        return [launch.session_id] if launch.session_id is not None else []
    return [row.id or 0 for row in current.open_sessions(db) if row.imported_from is None]


def tell(db: Session, registry: Registry, anomaly: Anomaly, session_id: int, now: datetime) -> None:
    """A new finding, or more of the open one; nothing where it says so already."""
    row = _open(db, anomaly.key, session_id)
    scope = Scope(registry, f"{_PREFIX}{anomaly.key}", session_id)
    launch = [ids.public_id("L", anomaly.launch)] if anomaly.launch else []
    if row is None:
        told = {
            "kind": anomaly.kind, "title": anomaly.title, "detail": _since(anomaly, now),
            "evidence": [*launch, *anomaly.evidence][:_MOST_EVIDENCE],
        }  # fmt: skip
        facts.tell_word(db, scope, "finding", told)
    elif is_over(row) or row.title != anomaly.title:
        again = f"Again since {_second(now)}. {anomaly.detail}." if is_over(row) else _since(anomaly, now)
        evidence = list(dict.fromkeys([*row.evidence, *launch, *anomaly.evidence]))[:_MOST_EVIDENCE]
        changed = FindingUpdate.model_validate({"title": anomaly.title, "detail": again, "evidence": evidence})
        facts.update(db, registry.by_word["finding"], row, changed, scope)


def over(db: Session, registry: Registry, key: str, session_id: int, now: datetime) -> None:
    """It stays to be confirmed, with the time at which it ended."""
    row = _open(db, key, session_id)
    if row is None or is_over(row):
        return
    changed = FindingUpdate.model_validate({"detail": f"{row.detail or ''}{_OVER}{_second(now)}."})
    facts.update(db, registry.by_word["finding"], row, changed, Scope(registry, row.provenance, session_id))


def under_way(db: Session) -> dict[tuple[str, int], str]:
    """(key, session) of what was not over when it was told last, by the daemon before this one, and its title.

    What was settled meanwhile is among it: it has not happened again because a daemon was started.
    """
    query = select(Finding).where(col(Finding.provenance).startswith(_PREFIX)).order_by(col(Finding.id))
    latest = {(row.provenance.removeprefix(_PREFIX), row.session_id or 0): row for row in db.exec(query).all()}
    return {key: row.title for key, row in latest.items() if key[1] and not is_over(row) and passes(key[0])}


def passes(key: str) -> bool:
    """An Xid has happened, and is never over."""
    return not key.startswith("xid ")


def is_over(row: Finding) -> bool:
    return _OVER in (row.detail or "")


def _second(at: datetime) -> str:
    return iso(at.replace(microsecond=0))


def _since(anomaly: Anomaly, now: datetime) -> str:
    return f"Since {_second(now)}. {anomaly.detail}."


def _open(db: Session, key: str, session_id: int) -> Finding | None:
    """What somebody has confirmed or refuted meanwhile is settled, and told anew where it happens again."""
    query = select(Finding).where(
        Finding.session_id == session_id, Finding.provenance == f"{_PREFIX}{key}", Finding.status == "open"
    )
    found: Sequence[Finding] = db.exec(query.order_by(col(Finding.id).desc()).limit(1)).all()
    return found[0] if found else None
