"""`sitrep directive`: the standing wishes of the user, verbatim."""

from __future__ import annotations

from sitrepd.cli import output, values
from sitrepd.cli.nouns import FactId, Field, NounTable, add_verbs
from sitrepd.cli.verbs import Cli, noun, verb

TABLE = NounTable(
    "directive",
    "directives",
    (
        Field("text", "The wish, word for word; `-` reads it from standard input.", values.text, argument=True),
        Field("message", "Number of the message that said it.", values.number, metavar="N"),
        Field("active", "Whether it still holds.", flag=True),
        Field("proposed", "Found in a message by a rule, and not confirmed.", flag=True),
    ),
    (
        ("ID", "id"),
        ("ACTIVE", "active"),
        ("PROPOSED", lambda told: told.get("proposed") or None),
        ("TEXT", "text"),
        ("MESSAGE", "message"),
        ("AT", "at"),
    ),
)

app = noun("Directives: the standing wishes of the user, word for word.")
add_verbs(app, TABLE)


@verb(app, "confirm")
def confirm(cli: Cli, fact_id: FactId) -> None:
    """Confirm a directive that was proposed from a message; it then is one like any other."""
    answer = cli.client.patch(f"/directives/{fact_id}", {"proposed": False})
    cli.show(answer, lambda told: output.say(f"{told['id']} is confirmed: {told['text']}"))


@verb(app, "dismiss")
def dismiss(cli: Cli, fact_id: FactId) -> None:
    """Say that a proposed directive is none, or that one holds no more; it is kept, as taken back."""
    answer = cli.client.patch(f"/directives/{fact_id}", {"proposed": False, "active": False})
    cli.show(answer, lambda told: output.say(f"{told['id']} is taken back: {told['text']}"))
