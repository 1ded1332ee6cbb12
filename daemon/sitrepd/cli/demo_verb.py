"""`sitrep demo`."""

from __future__ import annotations

from typing import Annotated

import typer

from sitrepd.cli.verbs import Cli, verb

app = typer.Typer()


@verb(app, "demo")
def demo(
    cli: Cli,
    once: Annotated[bool, typer.Option("--once", help="End after the checkpoint was printed.")] = False,
) -> None:
    """Play a session on a store of its own: a server loads, a checkpoint is written; no GPU is needed."""
    from sitrepd.demo.command import run

    raise typer.Exit(run(once, cli.json))
