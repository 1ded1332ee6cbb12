"""`sitrep launch`: starts of servers, by us or told."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

import typer

from sitrepd.cli import output, values
from sitrepd.cli.nouns import FactId, Field, NounTable, add_add, add_edit, add_list
from sitrepd.cli.verbs import Cli, noun, verb
from sitrepd.launches.states import STATES


def _command(told: Mapping[str, Any]) -> str:
    import shlex

    return told.get("command") or shlex.join(told.get("argv") or ())


def _state(told: Mapping[str, Any]) -> str:
    """A state that was told is neither a running process nor an end that was seen."""
    state = str(told.get("state") or "")
    return f"{state} (told)" if state and not told.get("watched") else state


TABLE = NounTable(
    "launch",
    "launches",
    (
        Field("name", "What it is called."),
        Field("engine", "sglang, vllm, …; recognised from the command if absent."),
        Field("model", "Id of a model card, or a path.", metavar="M|PATH"),
        Field("draft_model", "Id of a model card, or a path.", metavar="M|PATH"),
        Field("host", "The host that it ran on.", metavar="H"),
        Field("log_path", "Where its log is.", option="log", metavar="PATH"),
        Field("state", "How far it came; a record, never a process.", choices=STATES),
        Field("ready_at", "When it became ready.", values.moment, metavar="TIME"),
        Field("ended_at", "When it ended.", values.moment, metavar="TIME"),
        Field("exit_code", "Its exit status.", values.number, metavar="N"),
    ),
    (("ID", "id"), ("NAME", "name"), ("STATE", _state), ("ENGINE", "engine"), ("PORT", "port"), ("PID", "pid"),
     ("STARTED", lambda told: output.local_time(told.get("started_at") or told.get("at"))),
     ("FAILURE", "failure"), ("COMMAND", _command)),
)  # fmt: skip

RECORD = replace(
    TABLE,
    fields=(
        Field("command", "The shell command line, as it was typed.", values.text, argument=True),
        *TABLE.fields,
        Field("cwd", "Its working directory.", metavar="DIR"),
        Field("port", "Its port.", values.number, metavar="N"),
    ),
)

app = noun(
    "Launches: `sitrep launch -- COMMAND…` starts a server; `sitrep launch list`, `show`, `record`, `edit`.",
    other="start",
)
Words = Annotated[
    list[str],
    typer.Argument(
        metavar="COMMAND",
        help="Words as they are (argv), or one argument with a shell line as pasted; `-` reads that line.",
    ),
]


@verb(app, "start", context_settings={"allow_interspersed_args": False})
def start(
    cli: Cli,
    command: Words,
    name: Annotated[str | None, typer.Option("--name", help="What it is called.")] = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Show its phases until it is ready or has failed.")
    ] = False,
    engine: Annotated[str | None, typer.Option("--engine", help="sglang or generic; else recognised.")] = None,
    ready_url: Annotated[str | None, typer.Option("--ready-url", help="Answers 200 when the server is ready.")] = None,
    ready_pattern: Annotated[
        str | None, typer.Option("--ready-pattern", help="Regular expression of the log line that says ready.")
    ] = None,
    port: Annotated[int | None, typer.Option("--port", help="Its port, where the command does not say it.")] = None,
    log: Annotated[str | None, typer.Option("--log", metavar="PATH", help="Write its output there.")] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="M|PATH", help="Its model, if not in the command.")
    ] = None,
    cwd: Annotated[
        str | None, typer.Option("--cwd", metavar="DIR", help="Its working directory; else this one.")
    ] = None,
    env: Annotated[
        list[str] | None, typer.Option("--env", metavar="NAME=VALUE", help="Set in its environment; may be repeated.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Start it although its port is taken.")] = False,
) -> None:
    """Start a server, as this shell would: with its folder, environment, umask, limits, niceness and processors.

    It outlives the daemon.

    Options come before the command; `sitrep launch -- python -m sglang.launch_server …` is the same with argv, and
    `sitrep launch 'nohup python … > log 2>&1 &'` takes a shell line as pasted.
    """
    told = {
        "name": name, "engine": engine, "ready_url": ready_url, "ready_pattern": ready_pattern, "port": port,
        "log_path": os.path.abspath(log) if log and cli.is_local else log, "model": model, "force": force or None,
    }  # fmt: skip
    body = {key: value for key, value in told.items() if value is not None}
    body |= command_of(command) | surroundings(cli, cwd, env or [])
    answer = cli.client.post("/launches", body)
    launch = answer.data["id"]
    if watch:
        from sitrepd.cli.watch import follow

        if not cli.json:
            say_started(answer.data)
        raise typer.Exit(follow(cli, launch))
    cli.show(answer, say_started)


def command_of(words: list[str]) -> dict[str, Any]:
    """`command` for one argument that is a shell line, else `argv`."""
    if words == ["-"]:
        return {"command": values.text("-").strip()}
    if len(words) == 1:
        return {"command": words[0]}
    if " " in words[0].strip() and shutil.which(words[0]) is None:
        raise typer.BadParameter(
            f"{words[0]!r} looks like a shell line, but {words[1]!r} comes after it. Options come before the command; "
            "a shell line is one argument."
        )
    return {"argv": words}


def surroundings(cli: Cli, cwd: str | None, env: list[str]) -> dict[str, Any]:
    """What the server takes over from this shell, where it starts on this machine."""
    added = values.text_pairs(env)
    if not cli.is_local:
        return ({"cwd": cwd} if cwd else {}) | ({"env": added} if added else {})
    from sitrepd.launches.caller import caller_context

    around = caller_context()
    environment = {name: value for name, value in around["env"].items() if is_text(name) and is_text(value)}
    for name in around["env"].keys() - environment.keys():
        output.warn(f"{name!a} is left out of the environment: it is not UTF-8.")
    folder = os.path.abspath(os.path.expanduser(cwd)) if cwd else around["cwd"]
    return {
        "cwd": folder, "env": environment | added, "inherit_env": False, "umask": around["umask"],
        "limits": around["limits"], "nice": around["nice"], "affinity": around["affinity"], "told_env": sorted(added),
    }  # fmt: skip


def is_text(value: str) -> bool:
    """Whether it can be sent: it is UTF-8."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def say_started(launch: dict[str, Any]) -> None:
    """Its id, its pid, its log, and what is to be noted."""
    name = f" ({launch['name']})" if launch.get("name") else ""
    output.say(f"{launch['id']}{name} started, pid {launch.get('pid')}, {launch.get('engine')}.")
    if launch.get("log_path"):
        output.say(f"Log: {launch['log_path']}")
    for one in launch.get("checks") or ():
        output.warn(f"Warning: {one['text']}{' ' + one['fix'] if one.get('fix') else ''}")
    for warning in launch.get("warnings") or ():
        output.warn(f"Note: {warning}")


add_list(app, TABLE)


@verb(app, "show")
def show(
    cli: Cli,
    fact_id: FactId,
    every: Annotated[bool, typer.Option("--all", help="All settings, as the engine resolved them.")] = False,
    changed: Annotated[
        bool, typer.Option("--changed", help="Only what the engine changed or chose of what was asked for.")
    ] = False,
) -> None:
    """Everything that is known of one launch; of its settings those that were asked for, changed or chosen.

    With --json the whole fact; with --json and --changed the settings as `GET …/settings` has them.
    """
    if cli.json and changed:
        output.write_bytes(cli.client.get(f"/launches/{fact_id}/settings").body)
        return
    from sitrepd.cli.launch_fact import say_launch

    answer = cli.client.get(f"/launches/{fact_id}")
    cli.show(answer, lambda told: say_launch(cli, told, whole=every, changed=changed))


add_add(
    app,
    RECORD,
    "record",
    "Tell of a launch that somebody else made, or that has ended; nothing is started.",
    start=False,
)
add_edit(app, TABLE)
