"""`sitrep demo`."""

from __future__ import annotations

from typing import Annotated

import typer

from sitrepd.cli.verbs import Cli, verb
from sitrepd.errors import SitrepError

app = typer.Typer()


@verb(app, "demo")
def demo(
    cli: Cli,
    once: Annotated[
        bool, typer.Option("--once", help="End after the checkpoint was printed, within a minute.")
    ] = False,
) -> None:
    """Play a session on a store of its own: a server loads, a checkpoint is written; no GPU is needed.

    Nothing of it is left afterwards, and no SITREP_* setting changes it. With --json the checkpoint is printed as JSON,
    and everything else goes to standard error.
    """
    if cli.data_dir is not None or cli.session is not None:
        raise SitrepError("The demo has a store and a session of its own: leave out --data-dir and --session.")
    from sitrepd.demo.command import run

    raise typer.Exit(run(once, cli.json))
