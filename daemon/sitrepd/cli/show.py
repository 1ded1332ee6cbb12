"""`sitrep show`: any fact by its id."""

from __future__ import annotations

from typing import Annotated

import typer

from sitrepd.cli import output
from sitrepd.cli.verbs import Cli, verb

app = typer.Typer()


@verb(app, "show")
def show(cli: Cli, fact_id: Annotated[str, typer.Argument(metavar="ID", help="L14, B31, F9, …")]) -> None:
    """Everything that is known of one fact, by its id."""
    answer = cli.client.get(f"/facts/{fact_id}")
    # A checkpoint is text, and its section model long.
    cli.show(answer, lambda told: output.fact({name: value for name, value in told.items() if name != "rendered"}))
