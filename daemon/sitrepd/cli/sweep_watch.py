"""A sweep as it goes: a line for each thing that happens, and its table at the end."""

from __future__ import annotations

import time
from typing import Any

from sitrepd.cli import output
from sitrepd.cli.following import Moment, as_lines, moments
from sitrepd.cli.verbs import NOT_READY, Cli

_OVER = ("done", "stopped", "failed", "paused")
_POLL_S = 1.0
_PATIENCE_S = 60.0


def follow(cli: Cli, sweep: str) -> int:
    """Until the sweep is over or pauses; 0 where it was done. One that was told without a state is not waited for."""
    said: set[tuple[Any, ...]] = set()
    found = moments(lambda: cli.client.get(f"/sweeps/{sweep}/status").data, _is_over, _POLL_S, _PATIENCE_S)
    try:
        if cli.json:
            told = as_lines(found, _news)
        else:
            for told in found:
                _say_new(said, told)
    except KeyboardInterrupt:
        output.warn(
            f"\nThe sweep goes on. `sitrep sweep watch {sweep}` looks again, `sitrep sweep stop {sweep}` ends it."
        )
        return 130
    if not cli.json:
        output.say()
        say_status(told)
    return 0 if told.get("state") == "done" else NOT_READY


def _is_over(told: Moment) -> bool:
    return told.get("state") in (*_OVER, None) and not any(one.get("state") == "running" for one in told["trials"])


def _news(told: Moment) -> tuple[Any, ...]:
    trials = ((one["id"], one.get("state"), one.get("step"), len(one["benchmarks"])) for one in told["trials"])
    return (told.get("state"), told.get("why"), *trials)


def _say_new(said: set[tuple[Any, ...]], told: dict[str, Any]) -> None:
    if (told.get("state"), told.get("why")) not in said:
        said.add((told.get("state"), told.get("why")))
        _line(f"{told['id']}{_is(told)}")
    for at, one in enumerate(told["trials"], 1):
        key = (one["id"], one.get("attempt"), one.get("state"), one.get("step"), one.get("why"), len(one["benchmarks"]))
        if one.get("state") == "planned" or key in said:
            continue
        said.add(key)
        after = _left(told) if one.get("state") != "running" else ""
        _line(f"{at}/{told['count']} {_name(one)}: {_doing(one)}{after}")


def _name(one: dict[str, Any]) -> str:
    return one.get("name") or f"trial {one['id']}"


def _line(text: str) -> None:
    output.say(f"{time.strftime('%H:%M:%S')} {text}")


def _doing(one: dict[str, Any]) -> str:
    launch = f" {one['launch']}" if one.get("launch") else ""
    why = f": {one['why']}" if one.get("why") else ""
    if one.get("state") == "running":
        count = len(one["benchmarks"])
        runs = f", {count} {'runs' if count > 1 else 'run'} so far" if count else ""
        return f"{one.get('step') or 'begins'}{launch}{runs}{why}"
    return f"{one.get('state') or 'told'}{launch}{why}{', ' + _figure(one) if one.get('value') else ''}"


def _figure(one: dict[str, Any]) -> str:
    parts = [f"{one['value']}", one.get("difference"), one.get("verdict")]
    runs = "one run" if one.get("runs") == 1 else f"mean of {one.get('runs')} runs"
    return ", ".join(part for part in (*parts, runs) if part)


def _left(told: dict[str, Any]) -> str:
    if told.get("remaining_s") is None or not told["left"]:
        return ""
    return f"; {told['left']} left, about {output.duration(told['remaining_s'])}"


def say_status(told: dict[str, Any]) -> None:
    """The table of its trials, and what is to be said of them."""
    output.say(f"{told['id']} {told.get('name') or ''}".rstrip() + f"{_is(told).removesuffix('.')}.")
    unit = f" {told['unit']}" if told.get("unit") else ""
    columns = (
        ("TRIAL", "id"), ("NAME", "name"), ("STATE", lambda one: _state(one)), ("LAUNCH", "launch"),
        (str(told.get("metric") or "VALUE").upper(), lambda one: f"{one['value']}{unit}" if one.get("value") else None),
        ("RUNS", "runs"), ("TO BASELINE", "difference"), ("VERDICT", "verdict"), ("MARKS", "marks"), ("WHY", "why"),
    )  # fmt: skip
    output.table(told["trials"], columns)
    best = [one for one in told["trials"] if one.get("best")]
    if best:
        named = ", ".join(f"{_name(one)} ({_figure(one)})" for one in best)
        output.say(f"Best by {told['metric']}: {named}.")
    for note in told.get("notes") or ():
        output.say(note)
    if told["left"] and told.get("state") in ("running", "planned"):
        then = f"next: {told['next']}" if told.get("next") else "the search chooses the next"
        count = "1 trial is" if told["left"] == 1 else f"{told['left']} trials are"
        output.say(f"{count} left; {then}. {_until(told)}")
    elif told.get("state") == "running" and told.get("remaining_s") is not None:
        output.say(f"The last trial is under way. {_until(told)}")


def _is(told: dict[str, Any]) -> str:
    """Its state and why, where they were told."""
    state = f" is {told['state']}" if told.get("state") else ""
    return f"{state}: {told['why']}" if told.get("why") else state


def _state(one: dict[str, Any]) -> str:
    step = f" ({one['step']})" if one.get("step") else ""
    return f"{one.get('state') or ''}{step}"


def _until(told: dict[str, Any]) -> str:
    if told.get("remaining_s") is None:
        return "How long still is not known before a trial has been measured."
    low, high = told.get("remaining_low_s"), told.get("remaining_high_s")
    between = (
        f" ({output.duration(low)} to {output.duration(high)})"
        if low is not None and high is not None and low != high
        else ""
    )
    return f"About {output.duration(told['remaining_s'])} still{between}, until {output.local_time(told['done_at'])}."
