"""`sitrep show`: any fact by its id."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sitrepd.cli import output
from sitrepd.cli.verbs import Cli, verb

app = typer.Typer()


@verb(app, "show")
def show(cli: Cli, fact_id: Annotated[str, typer.Argument(metavar="ID", help="L14, B31, F9, …")]) -> None:
    """Everything that is known of one fact, by its id."""
    answer = cli.client.get(f"/facts/{fact_id}")
    cli.show(answer, lambda told: _say(cli, told))


def _say(cli: Cli, told: dict[str, Any]) -> None:
    kind = str(told["id"])[:1]
    if kind == "L":
        from sitrepd.cli.launch_fact import say_launch

        say_launch(cli, told)
    elif kind == "K":
        from sitrepd.cli.stacks import say_stack

        say_stack(told)
    elif kind == "B":
        from sitrepd.cli.gpus_meaning import say_gpus

        output.fact(told)
        say_gpus(cli, told)
    elif kind == "H":
        from sitrepd.cli.hosts import say_seen

        output.fact(told)
        say_seen(cli, told)
    else:
        # A checkpoint is text, and its section model long.
        output.fact({name: value for name, value in told.items() if name != "rendered"})
