"""`sitrep training`: metrics of training runs, by epoch or step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sitrepd.cli import output, values
from sitrepd.cli.nouns import Field, NounTable, add_verbs
from sitrepd.cli.verbs import noun


def _latest(told: Mapping[str, Any]) -> str:
    points = told.get("points") or []
    if not points:
        return ""
    place = "epoch" if "epoch" in points[-1] else "step"
    return f"{place} {points[-1][place]}: {output.measures(points[-1]['metrics'])}"


TABLE = NounTable(
    "training",
    "trainings",
    (
        Field("name", "What it is called.", argument=True),
        Field("model", "Id of a model card, or a path.", metavar="M|PATH"),
        Field("points", "epoch=4,accept_rate=0.47 or step=900,loss=1.2:nats; may be repeated.", values.points,
              many=True, option="point", metavar="POINT"),
        Field("data", "What it was trained on (text, or JSON).", values.loose),
        Field("note", "More of it."),
    ),
    (("ID", "id"), ("NAME", "name"), ("MODEL", "model"), ("LATEST", _latest), ("NOTE", "note"), ("AT", "at")),
)  # fmt: skip

app = noun("Training runs: metrics by epoch or step.")
add_verbs(app, TABLE)
