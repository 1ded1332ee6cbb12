"""`sitrep directive`: the standing wishes of the user, verbatim."""

from __future__ import annotations

from sitrepd.cli import values
from sitrepd.cli.nouns import Field, NounTable, add_verbs
from sitrepd.cli.verbs import noun

TABLE = NounTable(
    "directive",
    "directives",
    (
        Field("text", "The wish, word for word; `-` reads it from standard input.", values.text, argument=True),
        Field("message", "Number of the message that said it.", values.number, metavar="N"),
        Field("active", "Whether it still holds.", flag=True),
    ),
    (("ID", "id"), ("ACTIVE", "active"), ("TEXT", "text"), ("MESSAGE", "message"), ("AT", "at")),
)

app = noun("Directives: the standing wishes of the user, word for word.")
add_verbs(app, TABLE)
