"""Shorter forms of an item, for when even what is pinned is too long: prose is clipped, values stay or go whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sitrepd.checkpoints.quote import clip
from sitrepd.storage import ids

# What may be clipped, the weightiest last; ids, names, numbers, paths, settings and commands never are.
PROSE = (
    "evidence",
    "warnings",
    "notes",
    "note",
    "suspect",
    "failure",
    "why",
    "detail",
    "goal",
    "reason",
    "title",
    "text",
)
_SHORT, _BRIEF = 240, 90
_NOT_BRIEF = frozenset({
    "evidence", "warnings", "notes", "note", "phases", "sizes", "log_path", "figures", "engine", "host", "model",
    "draft_model", "started_at", "repeats", "times", "workload",
})  # fmt: skip
_TITLED = frozenset({"detail"})


def shorter(item: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
    """The item in a short and in a brief form, each marked as `shortened`; without those that would be the same."""
    if isinstance(item.get("command"), str):
        if "of" not in item:
            return ()  # of the best run it is told where its command is; any other is only counted
        return [{**item, "command": None, "characters": len(item["command"]), "shortened": True}]
    forms: list[dict[str, Any]] = []
    for form in (_short(item), _brief(item)):
        if form != item and (not forms or form != forms[-1]):
            forms.append(form)
    return [{**form, "shortened": True} for form in forms]


def _short(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _clipped(name, value, _SHORT) for name, value in item.items()}


def _brief(item: Mapping[str, Any]) -> dict[str, Any]:
    """Without what explains; a detail stays where there is no title that it explains."""
    gone = _NOT_BRIEF | (_TITLED if item.get("title") else frozenset())
    return {name: _clipped(name, value, _BRIEF) for name, value in item.items() if name not in gone}


def _clipped(name: str, value: Any, most: int) -> Any:
    if name not in PROSE:
        return value
    if isinstance(value, str):
        return clip(value, most)
    if isinstance(value, list) and name == "evidence":
        return [one for one in value if not isinstance(one, str) or ids.parse_id(one)] or value[:1]
    return [clip(one, most) if isinstance(one, str) else one for one in value] if isinstance(value, list) else value
