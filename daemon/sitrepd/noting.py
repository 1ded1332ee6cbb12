"""What an event notes of a change, so that it can be told and undone."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from pydantic import BaseModel

from sitrepd.clock import iso

# So many characters of a value, and parts of a list or mapping.
_MOST_NOTED = 2000
_MOST_PARTS = 100


def noted(value: Any) -> Any:
    """A value as JSON, of bounded size; measures with the decimals that they were told with."""
    if isinstance(value, str):
        return value if len(value) <= _MOST_NOTED else f"{value[:_MOST_NOTED]} …"
    if isinstance(value, BaseModel):
        value = value.model_dump(exclude_none=True)
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, Mapping):
        return {str(name): noted(one) for name, one in list(value.items())[:_MOST_PARTS]}
    if isinstance(value, list | tuple):
        return [noted(one) for one in value[:_MOST_PARTS]]
    return value


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """`{"status": {"old": "open", "new": "refuted"}}`: what an event notes of a change, so that it can be undone."""
    return {name: {"old": before[name], "new": after[name]} for name in before if before[name] != after[name]}
