"""`sitrep mcp`: the Model Context Protocol on standard input and output."""

from __future__ import annotations

import sys

import typer

from sitrepd.cli.verbs import Cli, verb

app = typer.Typer()


@verb(app, "mcp")
def mcp(cli: Cli) -> None:
    """Serve MCP to an agent's client, by the daemon: what `sitrep install` puts into the client's settings.

    The same is at /mcp of the daemon, over HTTP with the token. Where no daemon can be had, the tools are there all the
    same and say so.
    """
    from sitrepd.cli.mcp_bridge import Bridge

    cli.in_shell = False

    def write(line: bytes) -> None:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()

    try:
        Bridge(cli, write).serve(sys.stdin.buffer)
    except (BrokenPipeError, KeyboardInterrupt):
        raise typer.Exit from None
