"""`sitrep restart` and `sitrep clone`: a launch again, as it was or with changed flags."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from sitrepd.cli import output, values
from sitrepd.cli.launches import is_text, say_started
from sitrepd.cli.stop import Launch
from sitrepd.cli.verbs import Cli, verb

app = typer.Typer()
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="FLAG=VALUE", help="Change or add a flag; FLAG alone is a bare one; given again, a list."
    ),
]
Unset = Annotated[list[str] | None, typer.Option("--unset", metavar="FLAG", help="Leave a flag out; may be repeated.")]
Env = Annotated[
    list[str] | None, typer.Option("--env", metavar="NAME=VALUE", help="Set in its environment; may be repeated.")
]
Name = Annotated[str | None, typer.Option("--name", help="What the new launch is called.")]
Log = Annotated[str | None, typer.Option("--log", metavar="PATH", help="Write its output there instead.")]
Force = Annotated[bool, typer.Option("--force", help="Start it although its port is taken.")]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Show its phases until it is ready or has failed.")]


@verb(app, "restart")
def restart(
    cli: Cli,
    launch: Launch,
    set_: Set = None,
    unset: Unset = None,
    env: Env = None,
    name: Name = None,
    log: Log = None,
    grace: Annotated[
        float | None,
        typer.Option("--grace", min=0, max=120, help="Seconds before SIGKILL; the engine's own if absent."),
    ] = None,
    watch: Watch = False,
) -> None:
    """Stop a server, wait until its processes and its port are gone, and start it again as a new launch.

    It runs as before, with the flags that are given changed; secrets are taken from this shell's environment. What
    cannot be started is refused before anything is stopped. The log of the earlier launch is kept beside the new one.
    """
    told = _asked(cli, set_, unset, env, name, log) | ({} if grace is None else {"grace_s": grace})
    _finish(cli, cli.client.post(f"/launches/{launch}/restart", told), watch)


@verb(app, "clone")
def clone(
    cli: Cli,
    launch: Launch,
    set_: Set = None,
    unset: Unset = None,
    env: Env = None,
    name: Name = None,
    log: Log = None,
    force: Force = False,
    watch: Watch = False,
) -> None:
    """Start the same as a new launch, with the flags that are given changed; the earlier one is left alone.

    Its environment is that of the earlier launch; secrets, which are not stored, are taken from this shell's.
    """
    told = _asked(cli, set_, unset, env, name, log) | ({"force": True} if force else {})
    _finish(cli, cli.client.post(f"/launches/{launch}/clone", told), watch)


def _asked(
    cli: Cli, set_: list[str] | None, unset: list[str] | None, env: list[str] | None, name: str | None, log: str | None
) -> dict[str, Any]:
    told = {
        "set": flags(set_ or []), "unset": unset or None, "env": values.text_pairs(env or []) or None, "name": name,
        "log_path": os.path.abspath(log) if log and cli.is_local else log,
        "caller_env": environment() if cli.is_local else None,
    }  # fmt: skip
    return {key: value for key, value in told.items() if value}


def flags(told: list[str]) -> dict[str, Any]:
    """{FLAG: VALUE}; true for a bare flag, a list for one that is given several times."""
    found: dict[str, Any] = {}
    for one in told:
        flag, equals, value = one.partition("=")
        if not flag.strip("-"):
            raise typer.BadParameter(f"--set {one!r}: write FLAG=VALUE, such as speculative-num-steps=2.")
        if not equals:
            found[flag] = True
        elif flag in found:
            before = found[flag]
            found[flag] = [*(before if isinstance(before, list) else [before]), value]
        else:
            found[flag] = value
    return found


def environment() -> dict[str, str]:
    """This shell's, as far as it is text; where the daemon is on this machine it finds secrets in it."""
    return {name: value for name, value in os.environ.items() if is_text(name) and is_text(value)}


def _finish(cli: Cli, answer: Any, watch: bool) -> None:
    if not watch:
        cli.show(answer, _say)
        return
    from sitrepd.cli.watch import follow

    if not cli.json:
        _say(answer.data)
    raise typer.Exit(follow(cli, answer.data["id"]))


def _say(launch: dict[str, Any]) -> None:
    say_started(launch)
    output.say(f"It repeats {launch['from_launch']}: `sitrep diff {launch['from_launch']} {launch['id']}` says how.")
