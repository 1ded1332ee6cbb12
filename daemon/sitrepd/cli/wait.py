"""`sitrep wait`: until a launch has come to a state or a phase, or what else is waited for has happened."""

from __future__ import annotations

import re
import time
from typing import Annotated, Any

import typer

from sitrepd.cli import news, output
from sitrepd.cli.client import Answer, Unreachable
from sitrepd.cli.verbs import ENDED, NOT_READY, OTHER, TIME_OVER, Cli, verb

app = typer.Typer()
_PIECE_S = 25.0
_PATIENCE_S = 20.0
_PAUSE_S = 0.3
_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m(?:in)?)?(?:(\d+(?:\.\d+)?)s?)?")


@verb(app, "wait")
def wait(
    cli: Cli,
    launch: Annotated[
        str | None, typer.Argument(metavar="[L]", help="The launch; any event of the session if absent.")
    ] = None,
    for_: Annotated[
        list[str] | None,
        typer.Option(
            "--for",
            metavar="STATE",
            help="ready (if absent), ended, failed, any state or phase; without a launch a kind of event; repeatable.",
        ),
    ] = None,
    timeout: Annotated[str, typer.Option("--timeout", metavar="TIME", help="Such as 90s, 30m or 1h30m.")] = "1h",
) -> None:
    """Wait until a launch is ready, or has come to any of the states or phases that are given.

    A state counts when it is reached or passed, a phase when it has begun. The exit status says which: 0 the first
    that was given, 6 another one of them; 4 when it failed or was lost, 5 when it ended, whether that was waited for as
    a later one or came instead; 124 when the time was over. A daemon that restarts meanwhile is waited for.

    Without a launch it waits for the next event of the session that `notify_on` names: a server is ready, failed, lost
    or stuck, a sweep is done, a GPU is lost or its clocks are held down. The exit status is 4 for a failure or a loss.
    """
    if launch is None:
        news.wait(cli, for_ or [], seconds(timeout), timeout)
        return
    wanted = for_ or ["ready"]
    answer = _waited(cli, launch, wanted, seconds(timeout))
    cli.show(answer, lambda told: output.say(_text(told, wanted, timeout)))
    raise typer.Exit(status(answer.data, wanted))


def seconds(told: str) -> float:
    """90, 90s, 30m, 1h30m."""
    found = _DURATION.fullmatch(told.strip().lower().replace(" ", ""))
    parts = [float(part or 0) for part in found.groups()] if found and told.strip() else []
    if not parts:
        raise typer.BadParameter(f"{told!r} is no time; write 90s, 30m or 1h30m.")
    return parts[0] * 3600 + parts[1] * 60 + parts[2]


def status(told: dict[str, Any], wanted: list[str]) -> int:
    """The exit status that says how the wait ended."""
    reached = told.get("reached")
    if reached is not None and reached == wanted[0]:
        return 0
    if told.get("over"):
        return NOT_READY if told.get("state") in ("failed", "lost") else ENDED
    return TIME_OVER if reached is None else OTHER


def _waited(cli: Cli, launch: str, wanted: list[str], timeout_s: float) -> Answer:
    """Asked again and again, each time for a while, so that neither proxies nor a restart of the daemon end it."""
    began = answered = time.monotonic()
    while True:
        asked = time.monotonic()
        piece_s = max(0.0, min(timeout_s - (asked - began), _PIECE_S))
        try:
            answer = cli.client.request(
                "GET", f"/launches/{launch}/wait", {"for": wanted, "timeout_s": round(piece_s, 3)}
            )
        except Unreachable:
            if time.monotonic() - answered > _PATIENCE_S:
                raise
            time.sleep(_PAUSE_S)
            continue
        answered = time.monotonic()
        if answer.data.get("reached") is not None or answer.data["over"] or answered - began >= timeout_s:
            return answer
        if answered - asked < piece_s / 2:
            # A daemon that ends answers early.
            time.sleep(_PAUSE_S)


def _text(told: dict[str, Any], wanted: list[str], timeout: str) -> str:
    name, state = told["id"], told.get("state") or "in a state that was not recorded"
    why = f": {told['failure']}" if told.get("failure") else "."
    if told.get("reached") is not None:
        if told["reached"] in (state, "ended", "failed"):
            return f"{name} is {state}{why}"
        return f"{name} has reached {told['reached']}; it is {state}."
    if told["over"]:
        return f"{name} is {state}, and will not be {' or '.join(wanted)} any more{why}"
    return f"{name} is {state}; {' or '.join(wanted)} was not reached within {timeout}."
