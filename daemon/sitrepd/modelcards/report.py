"""What model cards say in a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlmodel import col

from sitrepd import reporting as r
from sitrepd.modelcards.models import Model
from sitrepd.sections import Report, Section

_COLUMNS = (
    "id", "path", "name", "weight_bytes", "parameters", "active_parameters", "quantization", "kv_bytes_per_token",
    "kv_tokens", "target_id", "note",
)  # fmt: skip


def report(report: Report) -> list[Section]:
    """Section `models`: the session's own, and those that its launches name."""
    numbers = r.linked(report, "launch", "model_id") | r.linked(report, "launch", "draft_model_id")
    mine = (col(Model.session_id) == report.session_id) | col(Model.id).in_(numbers)
    return sections(r.rows(report, "model", _COLUMNS, mine, everywhere=True))


def sections(found: Sequence[Any]) -> list[Section]:
    items = [_item(row) for row in sorted(found, key=lambda row: row.id)]
    return [Section(name="models", title="Models", order=110, priority=35, items=items, more="sitrep model list")]


def _item(row: Any) -> dict[str, Any]:
    return {"id": f"M{row.id}", "ids": [f"M{row.id}"]} | r.present(
        name=row.name,
        path=row.path,
        weight_bytes=row.weight_bytes,
        parameters=row.parameters,
        active_parameters=row.active_parameters,
        quantization=row.quantization,
        kv_bytes_per_token=row.kv_bytes_per_token,
        kv_tokens=row.kv_tokens,
        target=r.public("M", row.target_id),
        note=row.note,
    )
