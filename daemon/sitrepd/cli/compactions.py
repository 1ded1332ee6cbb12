"""`sitrep compaction`: the clients' own summaries, and what they lost."""

from __future__ import annotations

from typing import Any

import typer

from sitrepd.cli import output, values
from sitrepd.cli.nouns import FactId, Field, NounTable, add_verbs
from sitrepd.cli.verbs import Cli, noun, verb

_PARTS = ("id", "what", "text")


def _lost(told: list[str]) -> list[dict[str, str]]:
    """`D2:directive:No hacks.`, each."""
    parts = [one.split(":", 2) for one in told]
    wrong = next((one for one, part in zip(told, parts, strict=True) if len(part) < len(_PARTS)), None)
    if wrong is not None:
        raise typer.BadParameter(f"{wrong!r}: write ID:WHAT:TEXT, such as 'D2:directive:No hacks.'")
    return [dict(zip(_PARTS, part, strict=True)) for part in parts]


TABLE = NounTable(
    "compaction",
    "compactions",
    (
        Field("client", "The agent's client.", argument=True),
        Field("summary", "The client's own summary; `-` reads it from standard input.", values.text),
        Field("checkpoint", "The checkpoint that was made before it.", metavar="C"),
        Field("trigger", "What caused it.", metavar="WORD"),
        Field("lost", "ID:WHAT:TEXT of a fact that it lost; may be repeated.", _lost, many=True, metavar="FACT"),
        Field("conversation", "The client's own conversation id.", metavar="ID"),
    ),
    (("ID", "id"), ("CLIENT", "client"), ("TRIGGER", "trigger"), ("CHECKPOINT", "checkpoint"),
     ("LOST", lambda told: ", ".join(one["id"] for one in told.get("lost") or ()) or "nothing"), ("AT", "at")),
)  # fmt: skip

app = noun("Compactions: the clients' own summaries of their conversations, and what they lost.")
add_verbs(app, TABLE)


@verb(app, "lost")
def lost(cli: Cli, fact_id: FactId) -> None:
    """What a summary lost of the pinned facts of the checkpoint that was made before it."""
    cli.show(cli.client.get(f"/compactions/{fact_id}"), _say)


def _say(told: dict[str, Any]) -> None:
    missing = told.get("lost") or []
    if not missing:
        output.say(f"The summary of compaction {told['id']} holds every pinned fact of {told.get('checkpoint')}.")
    for one in missing:
        output.say(f"{one['id']} {one['what']}: {one['text']}")
