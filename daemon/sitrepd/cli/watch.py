"""`sitrep watch`: the phases of a start, its progress and the time left, until it is ready or has failed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any

import typer

from sitrepd.cli import output
from sitrepd.cli.following import Moment, as_lines, bar, moments
from sitrepd.cli.verbs import NOT_READY, Cli, verb
from sitrepd.errors import Conflict
from sitrepd.launches.states import ENDED

app = typer.Typer()
_POLL_S = 0.3
_LINE_EVERY_S = 30.0
_PATIENCE_S = 20.0


@verb(app, "watch")
def watch(cli: Cli, launch: Annotated[str, typer.Argument(metavar="L", help="The launch.")]) -> None:
    """Watch a launch until it is ready (exit status 0) or has failed (4); Ctrl-C ends the watching alone.

    With --json, one object a line whenever something has changed.
    """
    raise typer.Exit(follow(cli, launch))


def follow(cli: Cli, launch: str) -> int:
    """Show a start as it goes; 0 once it is ready, else 4."""
    first = cli.client.get(f"/launches/{launch}/live").data
    if not first["watched"]:
        state = first.get("state") or "without a state"
        raise Conflict(f"{first['id']} is not a process that this daemon follows; it was told to be {state}.")
    try:
        path = f"/launches/{launch}/live"
        found = moments(lambda: cli.client.get(path).data, _is_over, _POLL_S, _PATIENCE_S)
        last = _show(cli, found)
    except KeyboardInterrupt:
        output.warn(
            f"\nThe server goes on. `sitrep watch {first['id']}` looks again, `sitrep stop {first['id']}` stops it."
        )
        raise typer.Exit(130) from None
    if not cli.json:
        _say_end(last)
    return 0 if last["state"] == "ready" else NOT_READY


def _is_over(moment: Moment) -> bool:
    return moment.get("state") in ("ready", *ENDED)


def _show(cli: Cli, found: Iterator[Moment]) -> Moment:
    if cli.json:
        return as_lines(found, _news)
    return _as_bar(found) if output.in_terminal() else _as_text(found)


def _news(moment: Moment) -> tuple[Any, ...]:
    return tuple(moment.get(name) for name in ("state", "phase", "progress", "done", "suspect"))


def _as_text(found: Iterator[Moment]) -> Moment:
    last: Moment = {}
    shown: tuple[Any, ...] | None = None
    at, noted = 0.0, ""
    for last in found:
        now = (last.get("state"), last.get("phase"), _tenth(last.get("progress")))
        if now != shown or time.monotonic() - at > _LINE_EVERY_S:
            output.say(f"{datetime.now().astimezone():%H:%M:%S}  {last['id']}  {moment_text(last)}")
            shown, at = now, time.monotonic()
        if noted != (note := _note(last)):
            output.say(f"{datetime.now().astimezone():%H:%M:%S}  {last['id']}  {note or 'It moves again.'}")
            noted = note
    return last


def _note(moment: dict[str, Any]) -> str:
    """What a person should look at, "" for nothing."""
    notes = (("Suspect: ", moment.get("suspect")), ("Its log: ", moment.get("log_problem")))
    return "; ".join(f"{what}{text}" for what, text in notes if text)


def _as_bar(found: Iterator[Moment]) -> Moment:
    last: Moment = {}
    with bar() as bars:
        task = bars.add_task("", total=None, left="")
        before: Moment = {}
        for last in found:
            if _note(before) != (note := _note(last)):
                bars.console.print(output.printable(note or "It moves again."), markup=False)
            if before and before.get("phase") != last.get("phase"):
                bars.console.print(f"{_title(before)}: {_phase_time(before)}", markup=False)
            share = last.get("progress")
            title = output.printable(f"{last['id']} {last.get('state')}: {_title(last)}")
            bars.update(
                task, description=title, left=_left(last),
                total=None if share is None else 100, completed=0 if share is None else float(share) * 100,
            )  # fmt: skip
            before = last
    return last


def moment_text(moment: dict[str, Any]) -> str:
    """loading, Load weights: 40 % (12 of 30 shards), about 5 min 20 s left"""
    said = str(moment.get("state") or "state not recorded")
    if moment.get("phase") and moment.get("state") not in ("ready", *ENDED):
        said += f", {_title(moment)}"
    counted = _left(moment)
    return f"{said}: {counted}" if counted else said


def _title(moment: dict[str, Any]) -> str:
    return str(moment.get("title") or moment.get("phase") or "waiting for its log")


def _left(moment: dict[str, Any]) -> str:
    parts = []
    if moment.get("progress") is not None:
        of = f" ({moment['done']} of {moment['total']} {moment.get('unit') or ''}".rstrip() + ")"
        parts.append(f"{float(moment['progress']) * 100:.0f} %{of if moment.get('total') else ''}")
    if moment.get("remaining_s") is not None:
        until = " of this phase" if moment.get("remaining_of") == "phase" else ""
        parts.append(f"about {output.duration(float(moment['remaining_s']))}{until} left")
    return ", ".join(parts)


def _phase_time(moment: dict[str, Any]) -> str:
    elapsed = moment.get("phase_elapsed_s")
    return output.duration(float(elapsed)) if elapsed is not None else "done"


def _tenth(progress: Any) -> int | None:
    return None if progress is None else int(float(progress) * 10)


def _say_end(moment: dict[str, Any]) -> None:
    name = moment["id"]
    elapsed = moment.get("elapsed_s")
    after = f" after {output.duration(float(elapsed))}" if elapsed else ""
    if moment["state"] == "ready":
        output.say(f"{name} is ready{after}.")
        return
    why = f": {moment['failure']}" if moment.get("failure") else "."
    output.say(f"{name} {moment['state']}{after}{why}")
    output.say(f"Its log: `sitrep logs {name}`.")
