"""`sitrep delivery`: hand-overs of checkpoints to agents."""

from __future__ import annotations

from sitrepd.cli import values
from sitrepd.cli.nouns import Field, NounTable, add_verbs
from sitrepd.cli.verbs import noun

TABLE = NounTable(
    "delivery",
    "deliveries",
    (
        Field("checkpoint", "The checkpoint that was handed over.", metavar="C", argument=True),
        Field("to", "Who it was handed to.", argument=True),
        Field("budget", "Characters that were asked for.", values.number, metavar="N"),
        Field("echoed", "Whether the receiver named it.", flag=True),
    ),
    (("ID", "id"), ("CHECKPOINT", "checkpoint"), ("TO", "to"), ("BUDGET", "budget"), ("BYTES", "bytes"),
     ("ECHOED", "echoed"), ("AT", "at")),
)  # fmt: skip

app = noun("Deliveries: hand-overs of checkpoints to agents.")
add_verbs(app, TABLE)
