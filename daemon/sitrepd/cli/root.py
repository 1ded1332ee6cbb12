"""The root command: which module has which verb, loaded only when it is asked for."""

from __future__ import annotations

import importlib
import os
import sys
from difflib import get_close_matches
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from sitrepd.cli.lazily import Lazily
from sitrepd.cli.verbs import Cli, DataDir, Json, NoStart, NounGroup, SessionOption

# In the order of the help: what a day begins with first.
VERBS = {
    "demo": "demo_verb",
    "serve": "serve",
    "status": "daemon",
    "init": "init",
    "install": "install",
    "uninstall": "install",
    "doctor": "doctor",
    "resume": "resume",
    "checkpoint": "checkpoints",
    "check": "check",
    "launch": "launches",
    "watch": "watch",
    "wait": "wait",
    "logs": "logs",
    "diagnose": "diagnose",
    "run": "run",
    "stop": "stop",
    "restart": "again",
    "clone": "again",
    "diff": "diff",
    "repro": "kept",
    "bundle": "kept",
    "ps": "servers",
    "bench": "benchmarks",
    "compare": "compare",
    "finding": "findings",
    "directive": "directives",
    "next-step": "next_steps",
    "message": "messages",
    "artifact": "artifacts",
    "session": "sessions",
    "profile": "profiles",
    "training": "trainings",
    "reference": "references",
    "sweep": "sweeps",
    "trial": "trials",
    "model": "models",
    "stack": "stacks",
    "host": "hosts",
    "gpu": "gpus",
    "claim": "claims",
    "delivery": "deliveries",
    "command": "commands",
    "compaction": "compactions",
    "show": "show",
    "search": "search",
    "timeline": "timeline",
    "events": "events",
    "retention": "retention",
    "backfill": "backfill",
    "import": "portable",
    "export": "portable",
    "open": "daemon",
    "shutdown": "daemon",
    "settings": "settings",
    "hook": "hook",
    "mcp": "mcp",
    "version": "daemon",
}
ALIASES = {
    "next": "next-step", "next-steps": "next-step", "benchmark": "bench", "benchmarks": "bench",
    "servers": "ps", "launches": "launch", "sessions": "session", "findings": "finding", "directives": "directive",
    "messages": "message", "artifacts": "artifact", "checkpoints": "checkpoint", "profiles": "profile",
    "trainings": "training", "references": "reference", "sweeps": "sweep", "trials": "trial", "models": "model",
    "stacks": "stack", "hosts": "host", "gpus": "gpu", "deliveries": "delivery", "log": "logs", "event": "events",
    "claims": "claim", "commands": "command", "compactions": "compaction",
}  # fmt: skip


class Root(Lazily, TyperGroup):
    """Loads a verb's module when the verb is used, so that each call pays for its own verb alone."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        name = ALIASES.get(cmd_name, cmd_name)
        if name not in VERBS:
            return None
        found = load(name)
        if cmd_name.endswith("s") and isinstance(found, NounGroup):
            # `sitrep checkpoints` lists, whatever `sitrep checkpoint` does.
            found.bare, found.other = "list", None
        return found

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        if name not in VERBS and name not in ALIASES and not name.startswith("-"):
            near = get_close_matches(name, [*VERBS, *ALIASES])
            ctx.fail(f"No such command {name!r}.{f' Did you mean {near[0]!r}?' if near else ''}")
        return super().resolve_command(ctx, args)


def load(name: str) -> Any:
    """The command or group of that name."""
    group = get_group(importlib.import_module(f"sitrepd.cli.{VERBS[name]}").app)
    if isinstance(group, NounGroup):
        group.name = name
        return group
    return group.commands[name]


app = typer.Typer(
    cls=Root,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from sitrepd import __version__

        print(f"sitrep {__version__}")
        raise typer.Exit


@app.callback()
def root(
    ctx: typer.Context,
    json_: Json = False,
    session: SessionOption = None,
    data_dir: DataDir = None,
    no_start: NoStart = False,
    version: Annotated[  # noqa: ARG001
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Sitrep remembers a long GPU-serving session and writes it down while the session waits.

    The options below may also stand after the verb. Exit status: 0 done, 1 refused, 2 wrong usage, 3 no daemon,
    4 a watched server did not become ready, or `check` found something; 5, 6 and 124 are of `wait`.
    """
    ctx.obj = Cli(json_, session, data_dir, no_start)


def run() -> None:
    """The command line of this process."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        app(prog_name="sitrep")
    finally:
        _close_quietly()


def _close_quietly() -> None:
    """A reader that has gone away, as `| head` does, is no error."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
