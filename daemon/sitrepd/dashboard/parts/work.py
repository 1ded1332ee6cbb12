"""What was told of the work itself: goal, directives, findings, next steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sitrepd.dashboard.view import View
from sitrepd.storage import ids

_GROUPS = (
    ("root_cause", "Root causes"),
    ("constraint", "Constraints"),
    ("decision", "Decisions"),
    ("rejected", "Rejected"),
    ("hypothesis", "Hypotheses"),
    ("observation", "Observations"),
)
_PAST = ("superseded", "refuted")
_FINISHED = ("done", "dropped")
_STEP_WORDS = {"todo": "to do", "doing": "being done"}


def session(view: View) -> dict[str, Any]:
    row = view.db.get(view.noun("session").table, view.session_id) if view.session_id else None
    return {"session": view.publish("session", [row])[0] if row is not None else None}


def directives(view: View) -> dict[str, Any]:
    return {"directives": list(reversed(view.told("directive")))}


def findings(view: View) -> dict[str, Any]:
    """By kind, what holds before what is past."""
    told = view.told("finding", 500)
    groups = [(title, _current_first([one for one in told if one.kind == kind])) for kind, title in _GROUPS]
    return {"groups": [(title, found) for title, found in groups if found]}


def _current_first(found: Sequence[Any]) -> list[Any]:
    return sorted(found, key=lambda one: one.status in _PAST)


def steps(view: View) -> dict[str, Any]:
    told = sorted(view.told("next_step", 500), key=lambda one: (one.order is None, one.order or 0, int(one.id[1:])))
    open_ones = [one for one in told if one.state not in _FINISHED]
    waited = {name for one in open_ones for name in one.after}
    return {
        "steps": [(one, _STEP_WORDS.get(one.state, one.state)) for one in open_ones],
        "finished": [one for one in told if one.state in _FINISHED],
        "waits": _states(view, waited),
    }


def _states(view: View, public_ids: set[str]) -> Mapping[str, str]:
    """In what state each fact is that a step waits for."""
    states: dict[str, str] = {}
    for public_id in public_ids:
        parsed = ids.parse_id(public_id)
        noun = view.registry.by_prefix.get(parsed[0]) if parsed else None
        row = view.db.get(noun.table, parsed[1]) if noun and parsed else None
        state = getattr(row, "state", None)
        recorded = noun is not None and noun.word == "launch" and not getattr(row, "watched", True)
        said = _STEP_WORDS.get(state or "", state or "")
        states[public_id] = f"{said}, as recorded" if said and recorded else said
    return states
