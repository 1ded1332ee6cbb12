"""What differs between two looks at a machine, item by item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Facts = Mapping[str, Any]
Change = dict[str, Any]
# Of a GPU: why it does not answer.
_REASON = ": reason"


def changes(before: Facts, after: Facts) -> list[Change]:
    """One {"field", "what", "before", "after"} a difference, of the facts that do not pass by themselves."""
    found: list[Change] = []
    for field in sorted({*before, *after}):
        old, new = before.get(field), after.get(field)
        if old == new:
            continue
        if field == "gpus":
            found += _of_items(field, _by(old, "uuid", "index"), _by(new, "uuid", "index"), _gpu)
        elif field == "disks":
            found += _of_items(field, _by(old, "path"), _by(new, "path"), lambda disk: f"disk {disk['path']}")
        elif field == "network":
            found += _of_items(field, _by(old, "name"), _by(new, "name"), lambda net: f"network {net['name']}")
        else:
            found.append({"field": field, "what": field.replace("_", " "), "before": old, "after": new})
    # The note says once more which GPUs do not answer.
    told = any(change["what"].endswith(_REASON) for change in found)
    return [change for change in found if change["field"] != "note"] if told else found


def sentence(found: Sequence[Change]) -> str:
    """In words: "GPU 3: pcie width is 8, was 16; GPU 5 is gone"."""
    return "; ".join(_words(change) for change in found)


def _words(change: Change) -> str:
    what, before, after = change["what"], change["before"], change["after"]
    if what.endswith(_REASON):
        gpu = what.removesuffix(_REASON)
        return f"{gpu} answers again" if after is None else f"{gpu} does not answer: {after}"
    if (before, after) == ("there", "not there"):
        return f"{what} is gone"
    if (before, after) == ("not there", "there"):
        return f"{what} is new"
    if any(isinstance(value, list | dict) for value in (before, after)):
        return f"{what} is another"
    return f"{what} is {_value(after)}, was {_value(before)}"


def _value(value: Any) -> str:
    return "not told" if value is None else "on" if value is True else "off" if value is False else str(value)


def _of_items(field: str, before: Facts, after: Facts, name: Any) -> list[Change]:
    found: list[Change] = []
    for key in [*before, *(key for key in after if key not in before)]:
        old, new = before.get(key), after.get(key)
        if old is None or new is None:
            there = {"before": "there" if old else "not there", "after": "there" if new else "not there"}
            found.append({"field": field, "what": name(old or new), **there})
            continue
        for part in sorted({*old, *new}):
            if old.get(part) != new.get(part):
                what = f"{name(new)}: {part.replace('_', ' ')}"
                found.append({"field": field, "what": what, "before": old.get(part), "after": new.get(part)})
    return found


def _by(items: Sequence[Facts] | None, *keys: str) -> dict[str, Facts]:
    """A GPU that never told its UUID goes by its index."""
    return {str(next(item[key] for key in keys if item.get(key) is not None)): item for item in items or ()}


def _gpu(gpu: Facts) -> str:
    return f"GPU {gpu['index']}"
