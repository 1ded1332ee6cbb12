"""The request that starts a stored launch again, perhaps with changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import Field

from sitrepd.errors import Conflict, InvalidFact
from sitrepd.launches.models import Launch, LaunchCreate
from sitrepd.launches.repeat import around as a
from sitrepd.launches.repeat.change import change_argv, change_line
from sitrepd.launches.repeat.words import Change, plain_name
from sitrepd.launches.writers import still_writes
from sitrepd.shapes import Flag, Name, Shape, Text, Whole, example
from sitrepd.storage import ids


class CloneIn(Shape):
    """What is to be different from the launch that is repeated."""

    model_config = example(
        {"set": {"speculative-num-steps": 4}, "unset": ["enable-metrics"], "env": {"NCCL_ALGO": "Ring"}}
    )
    name: Name | None = None
    set: dict[str, Text | Whole | float | bool | list[Text]] = Field(
        default_factory=dict, description="Flags by name; true is the bare flag, a list several values."
    )
    unset: list[Text] = Field(default_factory=list, description="Flags to leave out.")
    env: dict[str, Text] = Field(default_factory=dict, description="Variables to set in its environment.")
    log_path: Text | None = Field(None, description="Where its output goes instead.")
    caller_env: dict[str, Text] | None = Field(
        None, description="The caller's environment, from which secrets are taken; the daemon's own if absent."
    )
    force: Flag = Field(False, description="Start it although its port is taken.")


class RestartIn(CloneIn):
    grace_s: float | None = Field(None, ge=0, le=120, description="Seconds before SIGKILL; the engine's own if absent.")


@dataclass(frozen=True)
class Again:
    """A request, and what its caller should know of it."""

    body: LaunchCreate
    notes: tuple[str, ...] = ()


def again(row: Launch, asked: CloneIn) -> Again:
    """How to start the launch again; raises a SitrepError that says what is missing or would be right."""
    public = ids.public_id("L", row.id or 0)
    if not row.command and not row.argv:
        raise Conflict(f"The command of {public} was not recorded, so it cannot be started again.")
    around = a.read_around(row)
    change = change_of(asked)
    caller = asked.caller_env if asked.caller_env is not None else a.own_environment()
    known = {**caller, **asked.env}
    secrets = a.needed(row, around) - {plain_name(name).replace("-", "_").upper() for name in asked.set}
    a.must_know(secrets, known, public)
    env, notes = _environment(row, around, asked, secrets, known)
    inherit = around.inherit_env if around else asked.caller_env is None
    told: dict[str, Any] = {
        "name": asked.name or (row.name if not change.of_flags and not asked.env else None),
        "engine": row.engine if around else None,
        "cwd": row.cwd,
        "ready_url": row.ready_url,
        "ready_pattern": row.ready_pattern,
        "from_launch": public,
        "force": asked.force,
        "inherit_env": inherit,
        "env": env,
        "told_env": sorted({*(row.env or {}), *(asked.env if not row.command else ())}),
    }
    told |= _command(row, around, change, env, secrets, known) | _kept(around, change)
    if around and around.log_path and not change.log_path and still_writes(row) and not isinstance(asked, RestartIn):
        told["log_path"] = None
        notes = (*notes, f"Its log is one of its own, since {public} still writes to {around.log_path}.")
    return Again(LaunchCreate(**{name: value for name, value in told.items() if value is not None}), notes)


def change_of(asked: CloneIn) -> Change:
    """Values as words of a command line."""
    return Change(
        {name: _values(name, value) for name, value in asked.set.items()}, asked.unset, asked.env, asked.log_path
    )


def _values(name: str, value: Any) -> tuple[str, ...]:
    if not plain_name(name):
        raise InvalidFact(f"set: {name!r} is no flag; write its name, such as tp-size.")
    if value is True:
        return ()
    if value is False:
        raise InvalidFact(f"set.{name}: a flag is left out by `unset`, not set to false.")
    return tuple(map(str, value)) if isinstance(value, list) else (str(value),)


def _environment(
    row: Launch, around: a.Around | None, asked: CloneIn, secrets: set[str], known: Mapping[str, str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """(as it was, secrets resolved; what is missing of it). Of a launch not started here, the caller's own."""
    was = around.env if around else {**(asked.caller_env or {}), **(row.env or {})}
    env, missing = a.resolved(was, known)
    if row.command:
        # The shell expands the references where the secrets stood.
        env |= {name: known[name] for name in secrets}
    elif asked.env:
        env |= asked.env
    left_out = sorted(set(missing) - set(env))
    said = f"Left out of its environment, since the one who asked has no such secret: {', '.join(left_out)}."
    return env, (said,) if left_out else ()


def _command(
    row: Launch,
    around: a.Around | None,
    change: Change,
    env: dict[str, str],
    secrets: set[str],
    known: Mapping[str, str],
) -> dict[str, Any]:
    if row.command:
        if not change.of_flags and not change.env and change.log_path is None:
            return {"command": row.command}
        seen = env if around is None or not around.inherit_env else {**a.own_environment(), **env}
        return {"command": change_line(row.command, seen, row.cwd or "/", change)}
    return {"argv": a.filled(change_argv(row.argv or (), replace(change, env={})), secrets, known)}


def _kept(around: a.Around | None, change: Change) -> dict[str, Any]:
    if around is None:
        return {"log_path": change.log_path}
    moved = any(plain_name(name) == "port" for name in (*change.set, *change.unset))
    return {
        "umask": around.umask,
        "limits": around.limits,
        "nice": around.nice,
        "affinity": around.affinity,
        "log_path": change.log_path or around.log_path,
        "port": None if moved else around.port,
    }


def keep_log(row: Launch, log: Path | None, *, append: bool) -> Path | None:
    """Where the log of the earlier launch goes, which the new one would empty; None where that is another file.

    Raises Conflict where the earlier launch still writes to it.
    """
    if log is None or append or not row.log_path or Path(row.log_path) != log:
        return None
    kept = _kept_log(row, log)
    if not log.is_file():
        # Moved by a start that a dying daemon did not finish.
        return kept if kept.is_file() else None
    public = ids.public_id("L", row.id or 0)
    if still_writes(row):
        raise Conflict(
            f"{public} still writes to {log}, which this launch would empty. Stop it first (sitrep restart does), or "
            "give the new one another file with --log."
        )
    return kept if not kept.exists() else None


def where_its_log_is(row: Launch) -> str | None:
    """The path of its log, which a later start may have moved aside."""
    kept = _kept_log(row, Path(row.log_path)) if row.log_path else None
    return str(kept) if kept and kept.is_file() else row.log_path


def _kept_log(row: Launch, log: Path) -> Path:
    return log.with_name(f"{log.stem}.{ids.public_id('L', row.id or 0)}{log.suffix}")
