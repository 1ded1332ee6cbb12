"""What a sweep varies, in words: of one that was told, anything may stand in these fields."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from sitrepd import reporting as r
from sitrepd.sweeps.asked import ABSENT

_COMMAND = ("command", "argv", "cwd")


def parameters(told: Any) -> list[str]:
    """One text for each name: its values, or what it is computed from."""
    if not isinstance(told, Mapping):
        return list(_listed(told))
    return [_parameter(str(name), value) for name, value in told.items()]


def constraints(told: Any) -> list[str]:
    return list(_listed(told))


def settings(told: Mapping[str, Any] | None) -> str:
    return ", ".join(f"{name} {_value(value)}" for name, value in (told or {}).items())


def template(told: Any) -> dict[str, Any]:
    """`command`, its folder `cwd` and whatever else was told, as far as they are there."""
    if not isinstance(told, Mapping):
        return r.present(command=None if told is None else _value(told))
    line, argv, cwd = (told.get(name) for name in _COMMAND)
    words = [str(word) for word in argv] if isinstance(argv, list) else None
    command = line if isinstance(line, str) else r.command_line(None, words, None)
    known = {"command": command, "argv": command and words, "cwd": cwd}
    more = [r.setting(name, value) for name, value in told.items() if value is not None and not known.get(name)]
    return r.present(command=command, cwd=_value(cwd) if cwd else None, more=more)


def _parameter(name: str, value: Any) -> str:
    if isinstance(value, list):
        return f"{name} {', '.join(map(_value, value))}" if value else name
    if isinstance(value, Mapping) and {"from", "to"} <= value.keys() <= {"from", "to", "step"}:
        step = f" in steps of {_value(value['step'])}" if value.get("step") not in (None, 1) else ""
        return f"{name} {_value(value['from'])} to {_value(value['to'])}{step}"
    return f"{name} = {_value(value)}"


def _listed(told: Any) -> Iterator[str]:
    if told is not None:
        yield from map(_value, told) if isinstance(told, list) else (_value(told),)


def _value(value: Any) -> str:
    """Text as it is; what is left out is absent."""
    if value is None:
        return ABSENT
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
