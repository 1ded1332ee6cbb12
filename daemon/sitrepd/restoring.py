"""What the slices share to read a checkpoint back: the reverse of `reporting`, from a section to session-file lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

Line = dict[str, Any]


def told(**fields: Any) -> Line:
    """A line without the fields that nothing was said of."""
    return {name: value for name, value in fields.items() if value is not None and value != [] and value != {}}


def number(text: Any) -> Any:
    """A number with the decimals that it is printed with; what is none stays, and is refused where it is read."""
    try:
        return Decimal(text) if isinstance(text, str) else text
    except InvalidOperation:
        return text


def measures(listed: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Metrics by name, from `[{"name", "value", "unit", "better"}]`."""
    return {one["name"]: measure(one) for one in listed}


def measure(one: Mapping[str, Any]) -> dict[str, Any]:
    return told(value=number(one["value"]), unit=one.get("unit"), better=one.get("better"))


def settings(listed: Iterable[str]) -> dict[str, Any]:
    """A configuration from its `name=value` settings, as `reporting.setting` prints them."""
    return {name: _setting(value) for name, _, value in (one.partition("=") for one in listed)}


def _setting(text: str) -> Any:
    """What would be printed so; 0.880 was text, since a number would have been printed as 0.88."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if json.dumps(value, ensure_ascii=False) == text else text


def reference(value: Any) -> Any:
    """The id of a fact that an item names as `{"id", "name"}`; text that stands in its place stays."""
    return value.get("id") if isinstance(value, Mapping) else value
