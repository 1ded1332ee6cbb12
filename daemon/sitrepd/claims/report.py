"""What claims say in a checkpoint: a line of `now` for each claim of others on the same GPUs or ports."""

from __future__ import annotations

from sitrepd.claims import overlap
from sitrepd.sections import Report, Section, of_now


def report(report: Report) -> list[Section]:
    """Nothing where nobody else claims what this session uses."""
    claims = overlap.everywhere(report.db, report.now)
    mine = [claim for claim in claims if claim.session_id == report.session_id]
    items = []
    for claim in claims:
        if claim.session_id == report.session_id:
            continue
        shared = {
            number
            for own in mine
            if own.resource == claim.resource and overlap.same_host(own, claim)
            for number in set(own.numbers) & set(claim.numbers)
        }
        if shared:
            text = overlap.said(claim, sorted(shared))
            items.append({
                "kind": "claim", "ids": [f"Q{claim.id}"], "text": f"{text}, and this session uses them too",
                "pinned": False, "priority": 27, "order": 55,
            })  # fmt: skip
    return [of_now(items)] if items else []
