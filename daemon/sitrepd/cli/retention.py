"""`sitrep retention`: what is too old is dropped."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sitrepd.cli import output
from sitrepd.cli.verbs import Cli, verb

app = typer.Typer()
_MOST = 20


@verb(app, "retention")
def retention(
    cli: Cli,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be dropped.")] = False,
) -> None:
    """Drop checkpoints, deliveries and changes that are too old, as the daemon does every few hours by itself.

    What is pinned, named, cited or the latest is kept, and so is everything that was told.
    """
    answer = cli.client.get("/retention") if dry_run else cli.client.post("/retention")
    cli.show(answer, _say)


def _say(plan: dict[str, Any]) -> None:
    would = "Would be dropped" if plan["dry_run"] else "Dropped"
    names = plan["checkpoints"]
    shown = f": {', '.join(names[:_MOST])}{' …' if len(names) > _MOST else ''}" if names else ""
    output.say(f"{would}: checkpoints {len(names)}{shown}; deliveries {plan['deliveries']}; changes {plan['events']}.")
    if plan["kept"]:
        output.say(f"Kept although old enough: {len(plan['kept'])}")
        for name, why in plan["kept"].items():
            output.say(f"  {name}: {why}")
