"""Our entries in a client's settings: found by the script that they call, put in, brought up to date, taken out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sitrepd.agents.install.jsonc import Jsonc, items

NAME = "sitrep"
_OURS = re.compile(r"(?:^|[\s\"'/])sitrep-hook[\"']?\s+[\w-]+\s+\w+")
Hooks = Mapping[str, list[Any]]


def is_ours(command: Any) -> bool:
    return isinstance(command, str) and _OURS.search(command) is not None


def put_hooks(document: Jsonc, wanted: Hooks) -> None:
    """The wanted groups under `hooks`, one an event, where they stand already or at the end; others of ours go."""
    for event, groups in wanted.items():
        _take_from_mixed(document, event)
        found = [place for place, group in enumerate(document.get(("hooks", event)) or ()) if _all_ours(group)]
        if found and document.get(("hooks", event, found[0])) != groups[0]:
            document.replace(("hooks", event, found[0]), groups[0])
        for place in reversed(found[1:]):
            document.remove(("hooks", event, place))
        if not found:
            document.append(("hooks", event), groups[0])
    for event in list(document.get(("hooks",)) or {}):
        if event not in wanted:
            _take_event(document, event)


def take_hooks(document: Jsonc) -> None:
    """Take out what calls our script, and what is empty then."""
    hooks = document.get(("hooks",))
    if not isinstance(hooks, dict):
        return
    for event in list(hooks):
        _take_event(document, event)
    if document.get(("hooks",)) == {} and hooks:
        document.remove(("hooks",))


def any_hooks(data: Any) -> bool:
    """Whether any hook of ours is there."""
    hooks = data.get("hooks") if isinstance(data, dict) else None
    groups = [group for found in (hooks or {}).values() if isinstance(found, list) for group in found]
    return any(is_ours(one.get("command")) for group in groups for one in _hooks_of(group))


def put(document: Jsonc, path: tuple[str, ...], value: Any) -> None:
    """A value of ours, written only where it differs."""
    if document.get(path) != value:
        document.set(path, value)


def take(document: Jsonc, path: tuple[str, ...]) -> None:
    """Take a value of ours out, and the object around it where that is empty then."""
    if document.get(path) is None:
        return
    document.remove(path)
    if len(path) > 1 and document.get(path[:-1]) == {}:
        document.remove(path[:-1])


def _take_event(document: Jsonc, event: str) -> None:
    _take_from_mixed(document, event)
    before = document.get(("hooks", event))
    for place, group in items(before):
        if _all_ours(group):
            document.remove(("hooks", event, place))
    if before and document.get(("hooks", event)) == []:
        document.remove(("hooks", event))


def _take_from_mixed(document: Jsonc, event: str) -> None:
    """Out of the groups that others have a hook in too."""
    for place, group in items(document.get(("hooks", event))):
        if _all_ours(group):
            continue
        for within, one in items(group.get("hooks") if isinstance(group, dict) else None):
            if isinstance(one, dict) and is_ours(one.get("command")):
                document.remove(("hooks", event, place, "hooks", within))


def _all_ours(group: Any) -> bool:
    hooks = _hooks_of(group)
    return bool(hooks) and all(is_ours(one.get("command")) for one in hooks)


def _hooks_of(group: Any) -> list[dict[str, Any]]:
    hooks = group.get("hooks") if isinstance(group, dict) else None
    return [one for one in hooks if isinstance(one, dict)] if isinstance(hooks, list) else []
