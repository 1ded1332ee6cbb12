"""`sitrep doctor`: whether clients of agents are set up, and whether their hooks reach the daemon."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sitrepd.agents.install import check
from sitrepd.agents.install.check import Check
from sitrepd.agents.install.clients import Name
from sitrepd.agents.install.where import top_of
from sitrepd.cli import output
from sitrepd.cli.client import Refused, Unreachable
from sitrepd.cli.verbs import REFUSED, Cli, verb

app = typer.Typer()


@verb(app, "doctor")
def doctor(
    cli: Cli,
    client: Annotated[
        Name | None, typer.Argument(metavar="CLIENT", help="One client; all that are installed if absent.")
    ] = None,
) -> None:
    """Check that the hooks of agents' clients are in place, trusted, and reach the daemon; say what to do otherwise.

    It changes nothing and starts no daemon. Exit status 1 where something is not as it should be.
    """
    found = [*check.environment(), *_daemon(cli)]
    clients = list(check.checks(top_of(Path.cwd()), client))
    if any(one.about.split(" ")[0] != "opencode" for one in clients if one.ok):
        found.append(check.reaches())
    found += clients
    if not clients:
        found.append(Check("clients", False, "none is installed or set up", "sitrep install CLIENT"))
    wrong = [one for one in found if not one.ok]
    if cli.json:
        output.as_json({"ok": not wrong, "checks": [one.told() for one in found]})
    else:
        _say(found)
    if wrong:
        raise typer.Exit(REFUSED)


def _daemon(cli: Cli) -> list[Check]:
    cli.no_start = True
    try:
        about = cli.client.get("/about").data
        heard = {one["client"]: one for one in cli.client.get("/hooks").data}
    except (Unreachable, Refused) as error:
        return [Check("daemon", False, error.detail, "start it with `sitrep serve`")]
    found = [Check("daemon", True, f"version {about['version']}, pid {about['pid']}, at {cli.target}")]
    try:
        session = cli.client.get("/sessions/current").data
        found.append(Check("session", True, f"{session['id']} {session['name']} is meant in this folder"))
    except Refused as error:
        found.append(Check("session", False, error.detail, "tie this folder to a session with `sitrep init`"))
    for name, one in heard.items():
        if "seen_at" in one:
            found.append(Check(f"{name} heard", True, f"last at {output.local_time(one['seen_at'])}"))
    return found


def _say(found: list[Check]) -> None:
    for one in found:
        output.say(f"{'ok ' if one.ok else '-- '} {one.about}: {one.detail}")
        if one.fix:
            output.say(f"     to do: {one.fix}")
