"""What next steps wait for, what has become of that, and which of them can be done while a server loads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlmodel import col

from sitrepd import reporting as r
from sitrepd.launches.states import ENDED, LOADING
from sitrepd.sections import Report, Section, of_now
from sitrepd.storage import ids

_MOST = 20


def outcomes(report: Report, waited_for: Iterable[str]) -> dict[str, str]:
    """What became of the facts that are waited for; those of which that is still open are left out.

    A launch counts once it was ready, a step once it is done, a sweep once it is over, any other fact once it is told.
    """
    found: dict[str, str] = {}
    by_prefix: dict[str, set[int]] = {}
    for public_id in set(waited_for):
        parsed = ids.parse_id(public_id)
        if parsed is not None:
            by_prefix.setdefault(parsed[0], set()).add(parsed[1])
    for prefix, numbers in by_prefix.items():
        noun = report.registry.by_prefix.get(prefix)
        if noun is None:
            continue
        names = [name for name in ("id", "state", "ready_at") if name in noun.table.model_fields]
        rows = r.rows(report, noun.word, names, col(noun.table.id).in_(numbers), everywhere=True)
        states = ((row.id, outcome(noun.word, row)) for row in rows)
        found |= {ids.public_id(prefix, number): state for number, state in states if state is not None}
    return found


def outcome(word: str, row: Any) -> str | None:
    """How it ended; None while that is open."""
    if word == "launch":
        if row.state == "ready":
            return "ready"
        if row.state in ENDED:
            return row.state if row.ready_at is None else "was ready"
        return None
    if word in ("next_step", "sweep", "trial"):
        return row.state if row.state in ("done", "dropped", "failed", "stopped", "cancelled") else None
    return "told"


def frees(state: str | None) -> bool:
    """Whether what waits for a fact that ended so may go on."""
    return state in ("ready", "was ready", "done", "told")


def usable(step: Mapping[str, Any]) -> bool:
    """Whether a step (an item of the section) can be done now without a server, as far as is told."""
    ended: Mapping[str, str] = step.get("ended", {})
    return step.get("needs") != "server" and all(frees(ended.get(one)) for one in step.get("after", ()))


def meanwhile(report: Report, open_steps: Sequence[Mapping[str, Any]]) -> list[Section]:
    """What the wait can be used for, while a launch of the session loads or was told to."""
    launch = r.table_of(report, "launch")
    loading = r.rows(
        report, "launch", ("id",), col(launch.state).in_(LOADING), col(launch.ended_at).is_(None), limit=_MOST
    )
    if not loading or not open_steps:
        return []
    steps = [r.present(id=step["id"], needs=step.get("needs")) for step in open_steps if usable(step)][:_MOST]
    item: dict[str, Any] = {"kind": "meanwhile", "ids": [step["id"] for step in steps], "what": "what to do meanwhile"}
    item |= {"launches": [f"L{row.id}" for row in reversed(loading)], "steps": steps, "priority": 8, "order": 15}
    return [of_now([item])]
