"""What a session says in a checkpoint: goal and directives, next steps, artifacts, its last message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sqlmodel import col

from sitrepd import reporting as r
from sitrepd.sections import Report, Section, of_now
from sitrepd.sessions import waiting
from sitrepd.sessions.models import Message

_DIRECTIVE = ("id", "text", "message", "active", "proposed", "at", "provenance")
_STEP = ("id", "text", "order", "after", "needs", "state")
_ARTIFACT = ("id", "path", "host_id", "role", "note")
_MESSAGE = ("number", "role", "text", "synthetic", "at")
_OPEN = ("todo", "doing")
_CLOSED_STEPS = 30
_ARTIFACTS = 500


def report(report: Report) -> list[Section]:
    """Sections `goal`, `next_steps` and `artifacts`, and the last message for `now`."""
    artifacts = r.rows(report, "artifact", _ARTIFACT, limit=_ARTIFACTS)
    hosts = r.names_of(report, "host", (row.host_id for row in artifacts))
    earlier = r.count(report, "artifact") - len(artifacts) if len(artifacts) == _ARTIFACTS else 0
    steps = r.rows(report, "next_step", _STEP)
    waited_for = (one for row in steps if row.state in _OPEN for one in row.after or ())
    todo = next_steps(steps, waiting.outcomes(report, waited_for))
    return [
        *now(_last_message(report)),
        *waiting.meanwhile(report, [item for item in todo.items if item["state"] in _OPEN]),
        goal(report.session, r.rows(report, "directive", _DIRECTIVE)),
        todo,
        *artifact_section(artifacts, hosts, earlier),
    ]


def _last_message(report: Report) -> Any:
    """The one that was told last; one of an old conversation that was read in later is none where there is another."""
    heard = col(Message.imported_from).is_(None)
    found = r.rows(report, "message", _MESSAGE, heard, limit=1) or r.rows(report, "message", _MESSAGE, limit=1)
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
    return [of_now([item])]


def goal(session: Any, directives: Sequence[Any]) -> Section:
    """The goal and the directives, word for word; directives that were taken back last."""
    public_id = f"S{session.id}"
    wish = {
        "kind": "goal",
        "id": public_id,
        "ids": [public_id],
        "what": "the goal",
        "goal": session.goal,
        "priority": 8,
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
    ordered = sorted(directives, key=lambda row: (not row.active, bool(row.proposed), row.id))
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
    item |= r.present(message=row.message, proposed=row.proposed or None, at=r.when(row.at), provenance=row.provenance)
    if row.active:
        return item | {"priority": 8} if row.proposed else item
    return item | {"pinned": False, "priority": 80}


def next_steps(found: Sequence[Any], ended: Mapping[str, str] = MappingProxyType({})) -> Section:
    """What is to do, in its order; then, newest first, what was done or dropped.

    The first one stays longest, and the first that can be done now.
    """
    open_ones = [row for row in found if row.state in _OPEN]
    open_ones.sort(key=lambda row: (row.order is None, row.order or 0, row.id))
    closed = [row for row in found if row.state not in _OPEN]
    items = [_step(row) | r.present(ended=_ended(row, ended)) for row in open_ones]
    first = next((place for place, item in enumerate(items) if waiting.usable(item)), 0)
    items = [item | ({"priority": 9} if place not in (0, first) else {}) for place, item in enumerate(items)]
    items += [_step(row) | {"pinned": False, "priority": 80} for row in closed[:_CLOSED_STEPS]]
    return Section(
        name="next_steps", title="Next steps", order=20, priority=3, pinned=True, items=items,
        data=r.present(earlier=max(0, len(closed) - _CLOSED_STEPS) or None), more="sitrep next-step list",
    )  # fmt: skip


def _step(row: Any) -> dict[str, Any]:
    item = {"id": f"N{row.id}", "ids": [f"N{row.id}"], "text": row.text, "state": row.state}
    return item | r.present(place=row.order, after=row.after, needs=row.needs)


def _ended(row: Any, ended: Mapping[str, str]) -> dict[str, str]:
    """What has become of those that the step waits for, where that is decided."""
    return {one: ended[one] for one in row.after or () if one in ended}


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
