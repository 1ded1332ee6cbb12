"""`sitrep delivery`: hand-overs of checkpoints to agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from sitrepd.cli import values
from sitrepd.cli.nouns import (
    AllSessions,
    Cursor,
    Field,
    Limit,
    NounTable,
    add_add,
    add_edit,
    add_show,
    list_path,
    show_page,
)
from sitrepd.cli.verbs import Cli, noun, verb

TABLE = NounTable(
    "delivery",
    "deliveries",
    (
        Field("checkpoint", "The checkpoint that was handed over.", metavar="C", argument=True),
        Field("to", "Who it was handed to.", argument=True),
        Field("channel", "The way it went.", choices=("cli", "hook", "mcp", "http")),
        Field("budget", "Characters that were asked for.", values.number, metavar="N"),
        Field("echoed", "Whether the receiver named it.", flag=True),
    ),
    (("ID", "id"), ("CHECKPOINT", "checkpoint"), ("TO", "to"), ("BY", "channel"), ("BUDGET", "budget"),
     ("BYTES", "bytes"), ("ARRIVED", lambda one: arrived(one)), ("AT", "at")),
)  # fmt: skip

app = noun("Deliveries: hand-overs of checkpoints to agents.")
Waiting = Annotated[bool, typer.Option("--waiting", help="Only those that are not known to have arrived.")]


def arrived(one: Mapping[str, Any]) -> str:
    """How it is known that the receiver has read it."""
    if one.get("echoed"):
        return "echoed"
    return str(one.get("proof") or "not known")


@verb(app, "list")
def list_deliveries(
    cli: Cli, waiting: Waiting = False, limit: Limit = 100, cursor: Cursor = None, all_sessions: AllSessions = False
) -> None:
    """List deliveries, newest first."""
    show_page(cli, TABLE, list_path(cli, TABLE.path, all_sessions), limit, cursor, waiting=waiting or None)


add_show(app, TABLE)
add_add(app, TABLE)
add_edit(app, TABLE)
