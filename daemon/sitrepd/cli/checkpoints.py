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
_CHARACTERS_A_TOKEN = 4


def budget_of(told: str | None) -> int | None:
    """Characters of `9000`, or of `2000t` tokens at four characters each."""
    if told is None:
        return None
    digits = told.removesuffix("t")
    if not digits.isdigit() or int(digits) == 0:
        raise typer.BadParameter(f"{told!r} is no budget; write 9000 (characters) or 2000t (tokens).")
    return int(digits) * (_CHARACTERS_A_TOKEN if told.endswith("t") else 1)


Budget = Annotated[
    str | None,
    typer.Option("--budget", metavar="N", help="Characters at the most; 2000t means tokens, at four characters each."),
]
app = noun(
    "Checkpoints: `sitrep checkpoint` renders one now; `sitrep checkpoint list`, `sitrep checkpoint show C15`.",
    bare="new",
    other="new",
)


@verb(app, "new")
def new(cli: Cli, format: FormatOption = "md", budget: Budget = None) -> None:
    """Render a checkpoint and print it; the latest one again where no fact has changed since."""
    told = budget_of(budget)
    cli.client.post("/sessions/current/checkpoints")
    written = "json" if cli.json else format
    print_document(cli.client.get("/sessions/current/checkpoints/latest", format=written, budget=told), written)


@verb(app, "list")
def list_checkpoints(cli: Cli, limit: Limit = 100, cursor: Cursor = None, all_sessions: AllSessions = False) -> None:
    """List checkpoints, newest first."""
    show_page(cli, TABLE, list_path(cli, TABLE.path, all_sessions), limit, cursor)


@verb(app, "show")
def show(cli: Cli, fact_id: FactId) -> None:
    """Print a checkpoint as it was stored."""
    cli.show(cli.client.get(f"/checkpoints/{fact_id}"), lambda told: _markdown(told["markdown"]))


@verb(app, "latest")
def latest(cli: Cli, format: FormatOption = "md", budget: Budget = None) -> None:
    """Print the latest checkpoint as it was stored, and render none."""
    written = "json" if cli.json else format
    told = budget_of(budget)
    print_document(cli.client.get("/sessions/current/checkpoints/latest", format=written, budget=told), written)


def print_document(answer: Answer, written: Any = "md") -> None:
    """A document: Markdown is set in a terminal, everything is as it came in a pipe."""
    if written == "md" and output.in_terminal():
        _markdown(answer.text)
    else:
        output.write_bytes(answer.body)


def _markdown(text: str) -> None:
    if not output.in_terminal():
        output.write_bytes(text.encode())
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(output.printable(text), hyperlinks=False))
