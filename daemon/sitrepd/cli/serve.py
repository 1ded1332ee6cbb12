"""`sitrep serve`: the daemon itself, in the foreground."""

from __future__ import annotations

from typing import Annotated

import typer

from sitrepd.cli.serving import serve as run
from sitrepd.cli.verbs import Cli, verb

app = typer.Typer()


@verb(app, "serve")
def serve(
    cli: Cli,
    port: Annotated[int | None, typer.Option("--port", help="The TCP port; 0 takes a free one. [SITREP_PORT]")] = None,
    host: Annotated[str | None, typer.Option("--host", help="The address to listen on. [SITREP_HOST]")] = None,
    any_port: Annotated[bool, typer.Option("--any-port", hidden=True)] = False,
) -> None:
    """Run the daemon until Ctrl-C or SIGTERM."""
    raise typer.Exit(run(cli.data_dir, port, host, any_port))
