"""`sitrep next-step` (also `sitrep next`): what is still to do."""

from __future__ import annotations

from sitrepd.cli import output, values
from sitrepd.cli.nouns import FactId, Field, NounTable, add_verbs
from sitrepd.cli.verbs import Cli, noun, verb

NEEDS = ("server", "nothing")
STATES = ("todo", "doing", "done", "dropped")
TABLE = NounTable(
    "next_step",
    "next-steps",
    (
        Field("text", "What is to do.", values.text, argument=True),
        Field("order", "Its place; lower comes first.", values.number, metavar="N"),
        Field("after", "Id of what it waits for (L14, N3); may be repeated.", many=True, metavar="ID"),
        Field("needs", "server, or nothing: then it can be done while a server loads.", choices=NEEDS),
        Field("state", "How far it is.", choices=STATES),
    ),
    (("ID", "id"), ("ORDER", "order"), ("STATE", "state"), ("TEXT", "text"), ("AFTER", "after"), ("AT", "at")),
)

app = noun("Next steps: what is still to do, its order and what it waits for.")
add_verbs(app, TABLE)


@verb(app, "done")
def done(cli: Cli, fact_id: FactId) -> None:
    """Mark a next step as done."""
    answer = cli.client.patch(f"/next-steps/{fact_id}", {"state": "done"})
    cli.show(answer, lambda step: output.say(f"{step['id']} done: {step['text']}"))
