"""`sitrep check`: what speaks against a launch, before it is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer

from sitrepd.cli import output
from sitrepd.cli.launches import Words, command_of, surroundings
from sitrepd.cli.verbs import NOT_READY, Cli, verb

app = typer.Typer()
AGAINST = ("warning", "error")


@verb(app, "check", context_settings={"allow_interspersed_args": False})
def check(
    cli: Cli,
    command: Words,
    cwd: Annotated[
        str | None, typer.Option("--cwd", metavar="DIR", help="Its working directory; else this one.")
    ] = None,
    env: Annotated[
        list[str] | None, typer.Option("--env", metavar="NAME=VALUE", help="Set in its environment; may be repeated.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Show also what is in order.")] = False,
) -> None:
    """Say what speaks against a launch, without starting it; exit status 4 where anything does.

    The command is written as for `sitrep launch`. The flags are those of the SGLang that the command would start.
    """
    body = command_of(command) | surroundings(cli, cwd, env or [])
    answer = cli.client.post("/launches/check", body)
    cli.show(answer, lambda told: _say(told["checks"], every))
    if any(one["level"] in AGAINST for one in answer.data["checks"]):
        raise typer.Exit(NOT_READY)


def _say(checks: Iterable[Mapping[str, Any]], every: bool) -> None:
    shown = [one for one in checks if every or one["level"] != "ok"]
    for one in shown:
        output.say(line_of(one))
    if not any(one["level"] in AGAINST for one in shown):
        output.say("Nothing speaks against it.")


def line_of(check: Mapping[str, Any]) -> str:
    """error: text Fix: what to do"""
    fix = f"\n         Fix: {check['fix']}" if check.get("fix") else ""
    return f"{check['level'] + ':':<8} {check['text']}{fix}"
