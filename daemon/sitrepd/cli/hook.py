"""`sitrep hook`: what a hook of an agent's client runs where the small script that needs only curl cannot."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from sitrepd.cli.verbs import Cli, verb
from sitrepd.errors import SitrepError

app = typer.Typer()


@verb(app, "hook")
def hook(
    cli: Cli,
    client: Annotated[str, typer.Argument(metavar="CLIENT", help="claude-code, codex, gemini or opencode.")],
    event: Annotated[str, typer.Argument(metavar="EVENT", help="The event, by the client's own name.")],
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.1, metavar="S", help="Seconds to wait for the daemon's answer.")
    ] = 1,
) -> None:
    """Hand a hook's payload (standard input) to the daemon, and print what the client is to take into its context.

    It starts no daemon, and exits 0 with nothing printed where none answers: a client must not fail for it. `sitrep
    install` uses a small script instead, which costs a few milliseconds.
    """
    cli.no_start = True
    body = b"" if sys.stdin.isatty() else sys.stdin.buffer.read()
    try:
        cli.client.timeout_s = timeout
        answer = cli.client.request("POST", f"/hooks/{client}/{event}", {}, body)
    except SitrepError:
        return
    sys.stdout.write(answer.text)
