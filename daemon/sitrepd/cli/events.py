"""`sitrep events`: what has changed, in the order in which it was stored."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from sitrepd.cli import output
from sitrepd.cli.verbs import Cli, verb

app = typer.Typer()
_POLL_S = 0.5


@verb(app, "events")
def events(
    cli: Cli,
    after: Annotated[int | None, typer.Option("--after", min=0, help="The last id that was seen.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many at the most.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new ones until Ctrl-C.")] = False,
) -> None:
    """Print the latest changes, or those after an id; with --json and --follow one list a line."""
    query: dict[str, Any] = {"tail": limit} if after is None else {"after": after}
    answer = cli.client.get("/events", limit=limit, **query)
    cli.show(answer, _say)
    seen = answer.data[-1]["id"] if answer.data else after or 0
    while follow:
        time.sleep(_POLL_S)
        answer = cli.client.get("/events", after=seen)
        if answer.data:
            cli.show(answer, _say)
            seen = answer.data[-1]["id"]


def _say(found: list[dict[str, Any]]) -> None:
    for event in found:
        session = event.get("session") or "-"
        data = output.cell({name: value for name, value in event["data"].items() if name != "changes"})
        words = (str(event["id"]), output.local_time(event["at"]), session, event["subject"], event["kind"], data)
        output.say("  ".join(words).rstrip())
