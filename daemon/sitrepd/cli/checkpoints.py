"""`sitrep checkpoint`: the status report, rendered now, listed, or shown as it was stored."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from sitrepd.cli import output
from sitrepd.cli.client import Answer
from sitrepd.cli.nouns import AllSessions, Cursor, FactId, Limit, NounTable, list_path, show_page
from sitrepd.cli.verbs import Cli, noun, verb

TABLE = NounTable(
    "checkpoint",
    "checkpoints",
    (),
    (("ID", "id"), ("SESSION", "session"), ("NUMBER", "number"), ("TRIGGER", "trigger"), ("CHARACTERS", "characters"),
     ("AT", "at")),
)  # fmt: skip
Format = Literal["md", "json", "html", "txt"]
FormatOption = Annotated[Format, typer.Option("--format", help="How it is written; --json is the same as json.")]
Budget = Annotated[
    str | None,
    typer.Option("--budget", metavar="N", help="Characters at the most; 2000t means tokens; brief, standard or full."),
]
app = noun(
    "Checkpoints: `sitrep checkpoint` renders one now; `sitrep checkpoint list`, `sitrep checkpoint show C15`.",
    bare="new",
    other="new",
)


@verb(app, "new")
def new(cli: Cli, format: FormatOption = "md", budget: Budget = None) -> None:
    """Render a checkpoint and print it; the latest one again where no fact has changed since."""
    made = cli.client.post("/sessions/current/checkpoints").data
    written = "json" if cli.json else format
    print_document(cli.client.get(f"/checkpoints/{made['id']}", format=written, budget=budget), written)


@verb(app, "list")
def list_checkpoints(cli: Cli, limit: Limit = 100, cursor: Cursor = None, all_sessions: AllSessions = False) -> None:
    """List checkpoints, newest first."""
    show_page(cli, TABLE, list_path(cli, TABLE.path, all_sessions), limit, cursor)


@verb(app, "show")
def show(cli: Cli, fact_id: FactId, format: FormatOption = "md", budget: Budget = None) -> None:
    """Print a checkpoint as it was stored; with --json all that is known of it."""
    if cli.json:
        output.write_bytes(cli.client.get(f"/checkpoints/{fact_id}").body)
        return
    print_document(cli.client.get(f"/checkpoints/{fact_id}", format=format, budget=budget), format)


@verb(app, "latest")
def latest(cli: Cli, format: FormatOption = "md", budget: Budget = None) -> None:
    """Print the latest checkpoint; the first one is made where there is none."""
    written = "json" if cli.json else format
    print_document(cli.client.get("/sessions/current/checkpoints/latest", format=written, budget=budget), written)


def print_document(answer: Answer, written: Any = "md") -> None:
    """A document: Markdown is set in a terminal, everything is as it came in a pipe."""
    if written != "md" or not output.in_terminal():
        output.write_bytes(answer.body)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(output.printable(answer.text), hyperlinks=False))
