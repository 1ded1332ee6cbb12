"""`sitrep demo`: a session, a server that loads and a checkpoint, on any machine."""

from __future__ import annotations

from typing import Annotated

import typer

from sitrepd.cli.verbs import Cli, verb
from sitrepd.errors import SitrepError

app = typer.Typer(rich_markup_mode=None, add_completion=False)
_Once = Annotated[bool, typer.Option("--once", help="End after printing the checkpoint, within a minute.")]


@verb(app, "demo")
def demo(cli: Cli, once: _Once = False) -> None:
    """Show what Sitrep does, with no GPU and no SGLang: a real session, a server that loads, a checkpoint.

    It has a daemon, a store and ports of its own, whatever SITREP_* says, and leaves nothing behind. With --json the
    checkpoint is printed as JSON, and all else goes to standard error.
    """
    if cli.data_dir is not None or cli.session is not None:
        raise SitrepError("The demo has a store and a session of its own: leave out --data-dir and --session.")
    from sitrepd.demo.command import run

    raise typer.Exit(run(once, cli.json))
