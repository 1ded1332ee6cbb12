"""`sitrep install` and `uninstall`: our entries in the settings of the clients of coding agents."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from sitrepd.agents.install.clients import CLIENTS, Name, Scope, Target, planned
from sitrepd.agents.install.files import Change, Written, apply
from sitrepd.agents.install.where import top_of
from sitrepd.cli import output
from sitrepd.cli.verbs import Cli, verb

app = typer.Typer()
Client = Annotated[Name, typer.Argument(metavar="CLIENT", help=f"{', '.join(CLIENTS)}.")]
ScopeOption = Annotated[
    Scope, typer.Option("--scope", help="user: every folder of this user; project: this project's own settings.")
]
Print = Annotated[bool, typer.Option("--print", help="Show what would be written, and write nothing.")]
_NEXT = {
    "claude-code": {
        "user": ["Sessions of Claude Code that run already see it after a restart."],
        "project": [
            "Claude Code asks once whether this folder is trusted, and whether the server `sitrep` of .mcp.json may be "
            "used."
        ],
    },
    "codex": {
        "user": ["Codex skips hooks that it was not told to trust, without a word: run `/hooks` in it and trust them."],
        "project": [
            "Codex skips hooks that it was not told to trust, without a word: run `/hooks` in it and trust them. The "
            "folder has to be trusted as well."
        ],
    },
    "gemini": {"user": [], "project": ["Gemini CLI reads these settings in folders that are trusted."]},
    "opencode": {"user": ["Restart opencode where it runs."], "project": ["Restart opencode where it runs."]},
}


@verb(app, "install")
def install(cli: Cli, client: Client, scope: ScopeOption = "user", print_only: Print = False) -> None:
    """Write hooks or plug-in and the MCP entry for a client, so that the checkpoint comes to the agent by itself.

    Shows the diff of each file of the client's (with --print of its own files too), touches nothing else in it, keeps
    it as it was beside it (`….sitrep-backup`), and does nothing a second time. `sitrep doctor` says whether it works.
    """
    _run(cli, Target(client, scope, top_of(Path.cwd())), print_only, install=True)


@verb(app, "uninstall")
def uninstall(cli: Cli, client: Client, scope: ScopeOption = "user", print_only: Print = False) -> None:
    """Take what `sitrep install` wrote out of a client's settings again, and nothing else."""
    _run(cli, Target(client, scope, top_of(Path.cwd())), print_only, install=False)


def _run(cli: Cli, target: Target, print_only: bool, install: bool) -> None:
    changes = planned(target, install)
    if not cli.json:
        _show(changes, print_only)
    written = [Written(change) for change in changes] if print_only else apply(changes)
    notes = list(_NEXT[target.client][target.scope]) if install else []
    if cli.json:
        files = [
            {"path": str(one.change.path), "change": one.change.word, "diff": list(one.change.diff())}
            | ({"backup": str(one.backup)} if one.backup else {})
            for one in written
        ]
        told = {"client": target.client, "scope": target.scope, "written": not print_only, "files": files}
        output.as_json(told | {"notes": notes})
        return
    if not print_only:
        _say(written)
    if install and any(change.before != change.after for change in changes):
        for note in notes:
            output.say(note)
        output.say("`sitrep doctor` checks that a hook reaches the daemon.")


def _show(changes: Sequence[Change], print_all: bool) -> None:
    """Of files that are Sitrep's alone there is nothing to compare; --print shows them too."""
    for change in changes if print_all else [one for one in changes if not one.ours]:
        for line in change.diff():
            output.say(line)


def _say(written: Sequence[Written]) -> None:
    for one in written:
        kept = f"; as it was: {one.backup}" if one.backup else ""
        output.say(f"{one.change.word.capitalize()}: {one.change.path}{kept}")
