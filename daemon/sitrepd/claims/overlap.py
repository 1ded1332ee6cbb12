"""Which claims hold now, and which of them are on the same GPUs or ports."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlmodel import Session, col, select

from sitrepd.claims.models import Claim
from sitrepd.clock import iso
from sitrepd.storage import ids

_WORDS = {"gpu": ("GPU", "GPUs"), "port": ("port", "ports")}


def holding(db: Session, now: datetime, host_id: int | None) -> list[Claim]:
    """The claims on a host that hold at a moment, oldest first; one that names no host is on this one."""
    return [claim for claim in everywhere(db, now) if host_id is None or claim.host_id in (None, host_id)]


def everywhere(db: Session, now: datetime) -> list[Claim]:
    """The claims of all hosts that hold at a moment, oldest first."""
    query = select(Claim).where(col(Claim.ended_at).is_(None)).order_by(col(Claim.id))
    return [claim for claim in db.exec(query).all() if holds(claim, now)]


def same_host(one: Any, other: Any) -> bool:
    """A claim that was made before the host was known is taken to be on it."""
    return one.host_id == other.host_id or None in (one.host_id, other.host_id)


def holds(claim: Any, now: datetime) -> bool:
    return claim.ended_at is None and (claim.until is None or claim.until > now)


def on(claims: Iterable[Claim], resource: str, numbers: Collection[int]) -> list[tuple[Claim, list[int]]]:
    """The claims on any of the numbers, each with those that it shares."""
    wanted = set(numbers)
    found = [(claim, sorted(wanted & set(claim.numbers))) for claim in claims if claim.resource == resource]
    return [(claim, shared) for claim, shared in found if shared]


def is_of_other(claim: Any, session_id: int | None, owner: str | None) -> bool:
    """A session's own claims are no obstacle to it; outside of sessions the owner's name decides."""
    if claim.session_id is not None or session_id is not None:
        return bool(claim.session_id != session_id)
    return bool(claim.owner != owner)


def said(claim: Any, shared: Sequence[int], now: datetime | None = None) -> str:
    """GPUs 0-3 are claimed by anna (S2) until 2026-03-01T14:00:00Z, 1 h 20 min left (Q4: profiling)."""
    one, many = _WORDS[claim.resource]
    what = f"{many if len(shared) > 1 else one} {ranges(shared)} {'are' if len(shared) > 1 else 'is'}"
    why = f": {claim.why}" if claim.why else ""
    return f"{what} claimed by {who(claim)} {_until(claim, now)} ({ids.public_id('Q', claim.id or 0)}{why})"


def who(claim: Any) -> str:
    """The owner with session and launch, as far as they are known."""
    known = [ids.public_id("S", claim.session_id)] if claim.session_id else []
    known += [ids.public_id("L", claim.launch_id)] if claim.launch_id else []
    owner = claim.owner or "somebody"
    return f"{owner} ({', '.join(known)})" if known else owner


def _until(claim: Any, now: datetime | None) -> str:
    """The time left is said only where `now` is given: a stored text must not age."""
    if claim.until is not None:
        left = f", {duration(claim.until - now)} left" if now else ""
        return f"until {iso(claim.until.replace(microsecond=0))}{left}"
    if claim.launch_id:
        return "for as long as that launch lives"
    return f"for as long as pid {claim.pid} lives" if claim.pid else "until it is ended"


def duration(left: timedelta) -> str:
    """1 h 20 min"""
    minutes = max(0, int(left.total_seconds())) // 60
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{minutes} min" if minutes else "less than a minute"


def ranges(numbers: Iterable[int]) -> str:
    """0-3,6 for 0, 1, 2, 3, 6."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
