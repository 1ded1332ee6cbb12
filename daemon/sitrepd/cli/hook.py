"""`sitrep hook`: what a hook of an agent's client runs where the small script that needs only curl cannot."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from sitrepd.cli.client import Unreachable
from sitrepd.cli.verbs import UNREACHABLE, Cli, verb
from sitrepd.errors import SitrepError

if TYPE_CHECKING:
    from sitrepd.cli.client import Client
    from sitrepd.cli.tunnel import Box

app = typer.Typer()


@verb(app, "hook")
def hook(
    cli: Cli,
    client: Annotated[str, typer.Argument(metavar="CLIENT", help="claude-code, codex, gemini or opencode.")],
    event: Annotated[str, typer.Argument(metavar="EVENT", help="The event, by the client's own name.")],
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.1, metavar="S", help="Seconds to wait for the daemon's answer.")
    ] = 1,
    fail: Annotated[bool, typer.Option("--fail", help="Exit with status 3 where no daemon answers in time.")] = False,
) -> None:
    """Hand a hook's payload (standard input) to the daemon, and print what the client is to take into its context.

    It starts no daemon, and exits 0 with nothing printed where none answers: a client must not fail for it. `sitrep
    install` uses a small script instead, which costs a few milliseconds.
    """
    cli.no_start = True
    body = b"" if sys.stdin.isatty() else sys.stdin.buffer.read()
    until = time.monotonic() + timeout
    try:
        if (box := cli.target.box) is not None and not _there_in_time(box, until, (client, event, cli.client, body)):
            raise Unreachable("The way to the other machine is not open yet.")
        cli.client.timeout_s = max(0.1, until - time.monotonic())
        answer = cli.client.request("POST", f"/hooks/{client}/{event}", {}, body)
    except SitrepError as error:
        if fail and isinstance(error, Unreachable):
            raise typer.Exit(UNREACHABLE) from None
        return
    sys.stdout.write(answer.text)


def _there_in_time(box: Box, until: float, told: tuple[str, str, Client, bytes]) -> bool:
    """Whether the way to another machine is open; where it is not, it is being opened for the hooks that come next.

    What nobody tells anew is kept and told when it is open, and not waited for.
    """
    from sitrepd.cli.kept_hooks import keep
    from sitrepd.cli.tunnel import open_in_background, wait_for

    if wait_for(box, 0):
        return True
    name, event, client, body = told
    kept = keep(box, name, event, client.headers, body)
    open_in_background(box)
    return not kept and wait_for(box, until)
