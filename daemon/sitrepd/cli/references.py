"""`sitrep reference`: results that somebody else published."""

from __future__ import annotations

from sitrepd.cli import output, values
from sitrepd.cli.nouns import Field, NounTable, add_verbs
from sitrepd.cli.verbs import noun

TABLE = NounTable(
    "reference",
    "references",
    (
        Field("name", "What it is called.", argument=True),
        Field("source", "Who published it, and where."),
        Field("metrics", "NAME=VALUE[:UNIT[:higher|lower]]; may be repeated.", values.metrics, many=True,
              option="metric", metavar="METRIC"),
        Field("note", "More of it."),
    ),
    (("ID", "id"), ("NAME", "name"), ("SOURCE", "source"),
     ("METRICS", lambda told: output.measures(told.get("metrics"))), ("NOTE", "note")),
)  # fmt: skip

app = noun("References: results that somebody else published.")
add_verbs(app, TABLE)
