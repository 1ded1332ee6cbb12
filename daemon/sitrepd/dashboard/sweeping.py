"""The page of a sweep: its trials with what they measured, what is next, and how long still."""

from __future__ import annotations

from typing import Any

from sqlmodel import Session

from sitrepd.runtime import Runtime
from sitrepd.sweeps import words
from sitrepd.sweeps.view import status


def shown(db: Session, runtime: Runtime, row: Any) -> dict[str, Any]:
    """`varied` is each parameter with its values, in words."""
    return {
        "sweep": status(db, runtime, row),
        "varied": [*words.parameters(row.parameters), *words.constraints(row.constraints)],
        "command": words.template(row.template).get("command"),
    }
