"""What others have claimed of the GPUs and the port."""

from __future__ import annotations

from collections.abc import Iterable

from sqlmodel import Session

from sitrepd.claims import overlap
from sitrepd.claims.models import Claim
from sitrepd.clock import utc_now
from sitrepd.launches.check.model import Check, Look, Subject
from sitrepd.launches.models import Launch


def check_claims(subject: Subject, look: Look) -> Iterable[Check]:
    """Claims of other sessions and of launches that live; what this session has set aside for itself is its own."""
    now = utc_now()
    with look.store.read() as db:
        held = [one for one in overlap.holding(db, now, look.host_id) if not _is_over(db, one)]
    wanted = (("gpu", subject.gpus.used), ("port", (subject.port,) if subject.port else ()))
    found = [(one, shared) for resource, numbers in wanted for one, shared in overlap.on(held, resource, numbers)]
    against = [(one, shared) for one, shared in found if _is_against(one, look)]
    for claim, shared in against:
        ids = [f"Q{claim.id}"] + ([f"L{claim.launch_id}"] if claim.launch_id else [])
        text = overlap.said(claim, shared, now)
        yield Check(name="claims", level="warning", text=f"{text}.", fix=_fix(claim), ids=ids)
    if not against and (subject.gpus.used or subject.port):
        yield Check(name="claims", level="ok", text="Nobody else has claimed its GPUs and its port.")


def _is_over(db: Session, claim: Claim) -> bool:
    """A launch that has ended a moment ago may still have its claim."""
    row = db.get(Launch, claim.launch_id) if claim.launch_id is not None else None
    return row is not None and row.ended_at is not None


def _is_against(claim: Claim, look: Look) -> bool:
    return claim.launch_id is not None or overlap.is_of_other(claim, look.session_id, look.owner)


def _fix(claim: Claim) -> str:
    if claim.launch_id is not None:
        return f"Ask {claim.owner or 'its owner'}, or stop it if it is yours: sitrep stop L{claim.launch_id}"
    return f"Ask {claim.owner or 'its owner'}, wait, or take others; if it is yours: sitrep claim end Q{claim.id}"
