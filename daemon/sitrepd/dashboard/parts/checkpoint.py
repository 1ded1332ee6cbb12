"""The latest checkpoint."""

from __future__ import annotations

from typing import Any

from sitrepd.dashboard.documents import to_html
from sitrepd.dashboard.view import View


def look(view: View) -> dict[str, Any]:
    rows = view.rows("checkpoint", 1)
    return shown(view, rows[0], deeper=1) if rows else {"checkpoint": None, "html": ""}


def shown(view: View, row: Any, deeper: int = 0) -> dict[str, Any]:
    """A checkpoint with its text as HTML."""
    return {"checkpoint": view.publish("checkpoint", [row])[0], "html": to_html(row.markdown, deeper)}
