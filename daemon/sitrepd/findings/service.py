"""What follows from a finding."""

from __future__ import annotations

from sqlmodel import Session

from sitrepd.errors import InvalidFact
from sitrepd.facts import Scope
from sitrepd.findings.models import Finding
from sitrepd.storage import events, ids


def supersede(db: Session, finding: Finding, scope: Scope) -> None:  # noqa: ARG001
    """A finding that is replaced never reads as current again."""
    if finding.supersedes_id is not None and finding.supersedes_id == finding.id:
        raise InvalidFact("supersedes: a finding cannot replace itself.", errors=[{"field": "supersedes"}])
    old = db.get(Finding, finding.supersedes_id) if finding.supersedes_id else None
    if old is None or old.status == "superseded":
        return
    changes = {"status": {"old": old.status, "new": "superseded"}}
    old.status = "superseded"
    db.add(old)
    subject = ids.public_id("F", old.id or 0)
    events.record(db, "finding.changed", subject, old.session_id, fields=["status"], changes=changes)
