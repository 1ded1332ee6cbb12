"""`sitrep sweep`: planned sets of trials."""

from __future__ import annotations

from sitrepd.cli import values
from sitrepd.cli.nouns import Field, NounTable, add_verbs
from sitrepd.cli.verbs import noun

TABLE = NounTable(
    "sweep",
    "sweeps",
    (
        Field("name", "What it is called.", argument=True),
        Field("template", "The launch that the trials vary, as JSON (`@FILE` reads a file).", values.strict_json,
              metavar="JSON"),
        Field("parameters", "Names and their values, as JSON.", values.strict_json, metavar="JSON"),
        Field("constraints", "Which combinations count, as JSON.", values.strict_json, metavar="JSON"),
        Field("state", "planned, running, paused, done or stopped."),
    ),
    (("ID", "id"), ("NAME", "name"), ("STATE", "state"), ("PARAMETERS", "parameters"), ("AT", "at")),
)  # fmt: skip

app = noun("Sweeps: planned sets of trials.")
add_verbs(app, TABLE)
