"""The latest checkpoint."""

from __future__ import annotations

from typing import Any

from sqlmodel import col, select

from sitrepd.dashboard.documents import to_html
from sitrepd.dashboard.view import View

_MOST = 10


def look(view: View) -> dict[str, Any]:
    rows = view.rows("checkpoint", 1)
    return shown(view, rows[0], deeper=1) if rows else {"checkpoint": None, "html": ""}


def shown(view: View, row: Any, deeper: int = 0) -> dict[str, Any]:
    """A checkpoint with its text as HTML, who was handed it, and the one before it."""
    told = view.publish("checkpoint", [row])[0]
    return {
        "checkpoint": told,
        "html": to_html(row.markdown, deeper),
        "deliveries": _deliveries(view, row.id),
        "before": _before(view, row),
    }


def _deliveries(view: View, number: int) -> list[tuple[Any, str]]:
    """The latest hand-overs, and how it is known that each has arrived."""
    told = view.publish("delivery", view.rows("delivery", _MOST, checkpoint_id=number))
    return [(one, "echoed" if one.echoed else one.proof or "not echoed") for one in told]


def _before(view: View, row: Any) -> str | None:
    """The checkpoint of the session that came before, to compare with."""
    table = view.noun("checkpoint").table
    query = select(table.id).where(col(table.session_id) == row.session_id, col(table.id) < row.id)
    number = view.db.exec(query.order_by(col(table.id).desc()).limit(1)).first()
    return f"C{number}" if number is not None else None
