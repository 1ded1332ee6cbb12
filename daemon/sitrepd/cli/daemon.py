"""Verbs about the daemon itself: status, open, shutdown, version."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import Annotated, Any

import typer

from sitrepd.cli import output
from sitrepd.cli.alive import lives
from sitrepd.cli.client import Client, Refused, Unreachable
from sitrepd.cli.verbs import Cli, verb
from sitrepd.errors import Conflict

app = typer.Typer()
_END_TIMEOUT_S = 20.0


@verb(app, "status")
def status(cli: Cli) -> None:
    """The daemon and the session that is meant, in ten lines; starts no daemon."""
    cli.no_start = True
    about = cli.client.get("/about").data
    found = {"daemon": about, **_session_status(cli.client)}
    if cli.json:
        output.as_json(found)
    else:
        _say_status(found)


def _session_status(client: Client) -> dict[str, Any]:
    try:
        session = client.get("/sessions/current").data
    except Refused as error:
        return {"session": None, "why": error.detail}
    base = "/sessions/current"
    launches = client.get(f"{base}/launches", limit=20).data
    alive = [one for one in launches["data"] if one.get("watched") and not one.get("ended_at")]
    steps = client.get(f"{base}/next-steps", limit=1000).data["data"]
    checkpoints = client.get(f"{base}/checkpoints", limit=1).data
    return {
        "session": session,
        "launches": launches["count"],
        "alive": [client.get(f"/launches/{one['id']}/live").data | {"name": one.get("name")} for one in alive],
        "benchmarks": client.get(f"{base}/benchmarks", limit=1).data["count"],
        "findings": client.get(f"{base}/findings", limit=1).data["count"],
        "next_steps": [one for one in reversed(steps) if one.get("state", "todo") in ("todo", "doing")],
        "checkpoint": next(iter(checkpoints["data"]), None),
    }


def _say_status(found: dict[str, Any]) -> None:
    daemon = found["daemon"]
    output.say(f"Sitrep {daemon['version']}, pid {daemon['pid']}, at {daemon['url']}")
    output.say(f"Store:       {daemon['data_dir']}")
    session = found["session"]
    if session is None:
        output.say(f"Session:     {found['why']}")
        return
    closed = ", closed" if session.get("ended_at") else ""
    output.say(f"Session:     {session['id']} {session['name']}{closed}")
    if session.get("goal"):
        output.say(f"Goal:        {session['goal']}")
    kinds = (("launch", "launches"), ("benchmark", "benchmarks"), ("finding", "findings"))
    counts = (f"{found[many]} {one if found[many] == 1 else many}" for one, many in kinds)
    output.say(f"Known:       {', '.join(counts)}")
    from sitrepd.cli.watch import moment_text

    for launch in found["alive"]:
        name = f" ({launch['name']})" if launch.get("name") else ""
        suspect = "; suspect: `sitrep launch show` says why" if launch.get("suspect") else ""
        output.say(f"Running:     {launch['id']}{name} {moment_text(launch)}{suspect}")
    for step in sorted(found["next_steps"], key=lambda step: step.get("order") or 0)[:2]:
        output.say(f"Next:        {step['id']} {step['text']}")
    checkpoint = found["checkpoint"]
    said = f"{checkpoint['id']} of {output.local_time(checkpoint['at'])}" if checkpoint else "none yet"
    output.say(f"Checkpoint:  {said}")


@verb(app, "open")
def open_dashboard(
    cli: Cli,
    browser: Annotated[bool, typer.Option("--browser", help="Open it in the browser of this machine.")] = False,
) -> None:
    """Print a link that opens the dashboard once."""
    answer = cli.client.post("/links")

    def for_people(link: Any) -> None:
        url = _as_reached(cli, link["url"])
        print(url)
        output.warn(f"It opens once, within {output.duration(float(link['expires_in_s']))}.")

    cli.show(answer, for_people)
    if browser:
        import webbrowser

        if not webbrowser.open(_as_reached(cli, answer.data["url"])):
            raise Conflict("No browser was found on this machine; open the link by hand.")


def _as_reached(cli: Cli, url: str) -> str:
    """The link by the address that this caller uses, which a proxy may have given its own name."""
    if cli.target.socket_path is not None:
        return url
    return f"{cli.target}/open/{url.rpartition('/open/')[2]}"


@verb(app, "shutdown")
def shutdown(cli: Cli) -> None:
    """End the daemon of this store; the servers that it launched live on, and the next daemon takes them up."""
    if not cli.is_store:
        raise Conflict("Only the daemon of a store on this machine can be ended so; leave out SITREP_URL.")
    cli.no_start = True
    try:
        pid = int(cli.client.get("/about").data["pid"])
    except Unreachable as error:
        raise Unreachable(f"No daemon runs for {cli.store}.") from error
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _END_TIMEOUT_S
    while lives(pid):
        if time.monotonic() > deadline:
            raise Conflict(f"The daemon (pid {pid}) was told to end, and has not within {_END_TIMEOUT_S:.0f} s.")
        time.sleep(0.02)
    if cli.json:
        output.as_json({"pid": pid, "data_dir": str(cli.store), "ended": True})
    else:
        output.say(f"The daemon (pid {pid}) has ended.")


@verb(app, "version")
def version(cli: Cli) -> None:
    """Print the version of this program."""
    from sitrepd import __version__

    if cli.json:
        output.as_json({"version": __version__})
    else:
        print(f"sitrep {__version__}")
