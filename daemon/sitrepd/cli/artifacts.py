"""`sitrep artifact`: files and directories that matter."""

from __future__ import annotations

from sitrepd.cli.nouns import Field, NounTable, add_verbs
from sitrepd.cli.verbs import noun

TABLE = NounTable(
    "artifact",
    "artifacts",
    (
        Field("path", "Where it is.", argument=True),
        Field("host", "The host that it is on.", metavar="H"),
        Field("role", "What it is for: draft model, server logs, …"),
        Field("note", "More of it."),
    ),
    (("ID", "id"), ("HOST", "host"), ("ROLE", "role"), ("PATH", "path"), ("NOTE", "note")),
)

app = noun("Artifacts: files and directories that matter.")
add_verbs(app, TABLE)
