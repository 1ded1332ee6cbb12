"""`sitrep stop`: ends a launched server."""

from __future__ import annotations

from typing import Annotated

import typer

from sitrepd.cli import output
from sitrepd.cli.verbs import Cli, verb

app = typer.Typer()
Launch = Annotated[str, typer.Argument(metavar="L", help="The launch.")]


@verb(app, "stop")
def stop(
    cli: Cli,
    launch: Launch,
    grace: Annotated[
        float | None,
        typer.Option("--grace", min=0, max=3600, help="Seconds before SIGKILL; the engine's own if absent."),
    ] = None,
    wait: Annotated[float, typer.Option("--wait", min=0, max=150, help="Seconds to wait for its end.")] = 60,
) -> None:
    """End a server: SIGTERM to its main process, after the grace time SIGKILL to all that is left of it."""
    told = {"wait_s": wait} | ({} if grace is None else {"grace_s": grace})
    answer = cli.client.post(f"/launches/{launch}/stop", told)
    cli.show(answer, lambda one: output.say(f"{one['id']} {_how(one)}"))


def _how(launch: dict[str, object]) -> str:
    if not launch.get("ended_at"):
        return "was told to end, and has not yet."
    code, signal = launch.get("exit_code"), launch.get("exit_signal")
    if launch.get("state") == "exited":
        # SGLang ends itself with SIGKILL when it has drained: that it was stopped is what matters.
        return "was stopped."
    if signal is not None:
        return f"has ended, by signal {signal}."
    return f"has ended, with exit status {code}." if code is not None else "has ended."
