"""`sitrep serve`: the daemon itself, in the foreground."""

from __future__ import annotations

from typing import Annotated

import typer

from sitrepd.cli.verbs import Cli, verb
from sitrepd.errors import StoreUnusable

app = typer.Typer()


@verb(app, "serve")
def serve(
    cli: Cli,
    port: Annotated[int | None, typer.Option("--port", help="The TCP port; 0 takes a free one. [SITREP_PORT]")] = None,
    host: Annotated[str | None, typer.Option("--host", help="The address to listen on. [SITREP_HOST]")] = None,
    any_port: Annotated[bool, typer.Option("--any-port", hidden=True)] = False,
) -> None:
    """Run the daemon until Ctrl-C or SIGTERM."""
    from sitrepd.server import serve as run
    from sitrepd.settings import load_settings

    settings = load_settings(data_dir=cli.data_dir, port=port, host=host)
    try:
        status = run(settings, any_port=any_port and "port" not in settings.model_fields_set)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise StoreUnusable(f"The daemon cannot start: {where}{error.strerror or error}.") from error
    raise typer.Exit(status)
