"""`sitrep message`: the messages of the agent's conversation, by their numbers there."""

from __future__ import annotations

from sitrepd.cli import values
from sitrepd.cli.nouns import Field, NounTable, add_verbs
from sitrepd.cli.verbs import noun

ROLES = ("user", "assistant", "system")
TABLE = NounTable(
    "message",
    "messages",
    (
        Field("number", "Its number in the conversation.", values.number, argument=True),
        Field("role", "Who spoke.", choices=ROLES, argument=True),
        Field("text", "What was said, word for word; `-` reads it from standard input.", values.text, argument=True),
        Field("synthetic", "Made by the client, not by a person.", flag=True),
    ),
    (("NUMBER", "number"), ("ROLE", "role"), ("SYNTHETIC", "synthetic"), ("TEXT", "text"), ("AT", "at"), ("ID", "id")),
)

app = noun("Messages of the agent's conversation.")
add_verbs(app, TABLE)
