"""What a session says in a checkpoint: goal and directives, next steps, artifacts, its last message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sitrepd import reporting as r
from sitrepd.sections import Report, Section

_DIRECTIVE = ("id", "text", "message", "active", "at", "provenance")
_STEP = ("id", "text", "order", "after", "state")
_ARTIFACT = ("id", "path", "host_id", "role", "note")
_MESSAGE = ("number", "role", "text", "synthetic", "at")
_CLOSED_STEPS = 30
_ARTIFACTS = 500


def report(report: Report) -> list[Section]:
    """Sections `goal`, `next_steps` and `artifacts`, and the last message for `now`."""
    artifacts = r.rows(report, "artifact", _ARTIFACT, limit=_ARTIFACTS)
    hosts = r.names_of(report, "host", (row.host_id for row in artifacts))
    earlier = r.count(report, "artifact") - len(artifacts) if len(artifacts) == _ARTIFACTS else 0
    return [
        *now(_last_message(report)),
        goal(report.session, r.rows(report, "directive", _DIRECTIVE)),
        next_steps(r.rows(report, "next_step", _STEP)),
        *artifact_section(artifacts, hosts, earlier),
    ]


def _last_message(report: Report) -> Any:
    """The one that was told last; the others are not read."""
    found = r.rows(report, "message", _MESSAGE, limit=1)
    return found[0] if found else None


def now(message: Any) -> list[Section]:
    if message is None:
        return []
    item = {
        "kind": "message",
        "ids": [],
        "what": "last message",
        "number": message.number,
        "role": message.role,
        "at": r.when(message.at),
    }
    item |= {"empty": not message.text.strip(), "synthetic": message.synthetic}
    item |= {"pinned": False, "priority": 28, "order": 40}
    return [Section(name="now", title="Now", order=10, priority=1, pinned=True, items=[item])]


def goal(session: Any, directives: Sequence[Any]) -> Section:
    """The goal and the directives, word for word; directives that were taken back last."""
    public_id = f"S{session.id}"
    wish = {
        "kind": "goal",
        "id": public_id,
        "ids": [public_id],
        "what": "the goal",
        "goal": session.goal,
        "priority": 9,
    }
    about = {"kind": "session", "id": public_id, "ids": [public_id], "name": session.name} | r.present(
        pinned=False,
        priority=29,
        order=1000,
        best_metric=session.best_metric,
        started_at=r.when(_began(session)),
        ended_at=r.when(session.ended_at),
        imported_from=session.imported_from,
    )
    ordered = sorted(directives, key=lambda row: (not row.active, row.id))
    items = [wish, *(_directive(row) for row in ordered), about]
    return Section(
        name="goal", title="Goal and directives", order=30, priority=2, pinned=True, items=items,
        more="sitrep directive list",
    )  # fmt: skip


def _began(session: Any) -> Any:
    """When the session began; an imported one that does not say so began at a time that is not known."""
    told = session.started_at
    unknown = session.imported_from and abs((told - session.at).total_seconds()) < 1
    return None if unknown else told


def _directive(row: Any) -> dict[str, Any]:
    item = {"kind": "directive", "id": f"D{row.id}", "ids": [f"D{row.id}"], "text": row.text, "active": row.active}
    item |= r.present(message=row.message, at=r.when(row.at), provenance=row.provenance)
    return item if row.active else item | {"pinned": False, "priority": 80}


def next_steps(found: Sequence[Any]) -> Section:
    """What is to do, in its order; then, newest first, what was done or dropped."""
    open_ones = [row for row in found if row.state in ("todo", "doing")]
    open_ones.sort(key=lambda row: (row.order is None, row.order or 0, row.id))
    closed = [row for row in found if row.state not in ("todo", "doing")]
    items = [_step(row) | ({"priority": 9} if place else {}) for place, row in enumerate(open_ones)]
    items += [_step(row) | {"pinned": False, "priority": 80} for row in closed[:_CLOSED_STEPS]]
    return Section(
        name="next_steps", title="Next steps", order=20, priority=3, pinned=True, items=items,
        data=r.present(earlier=max(0, len(closed) - _CLOSED_STEPS) or None), more="sitrep next-step list",
    )  # fmt: skip


def _step(row: Any) -> dict[str, Any]:
    item = {"id": f"N{row.id}", "ids": [f"N{row.id}"], "text": row.text, "state": row.state}
    return item | r.present(place=row.order, after=row.after)


def artifact_section(found: Sequence[Any], hosts: dict[int, dict[str, Any]], earlier: int) -> list[Section]:
    items = [
        {"id": f"A{row.id}", "ids": [f"A{row.id}"], "path": row.path}
        | r.present(host=hosts.get(row.host_id), role=row.role, note=row.note)
        for row in sorted(found, key=lambda row: row.id)
    ]
    data = r.present(earlier=earlier or None)
    return [
        Section(
            name="artifacts", title="Artifacts", order=150, priority=40, items=items, data=data,
            more="sitrep artifact list",
        )
    ]  # fmt: skip
