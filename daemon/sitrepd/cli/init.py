"""`sitrep init`: ties the folder to a session, so that whoever works there means it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from sitrepd.agents.install.where import top_of
from sitrepd.cli import output
from sitrepd.cli.client import Refused
from sitrepd.cli.lazily import Command
from sitrepd.cli.sessions import Goal, the_session
from sitrepd.cli.verbs import Cli, verb
from sitrepd.errors import Conflict

app = typer.Typer()
FILE_NAME = "SITREP.md"
AGENTS_NAME = "AGENTS.md"
_OURS = b"Sitrep C"


class _Init(Command):
    """Lets `--file` stand alone."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, with_file_name(args))


def with_file_name(args: list[str]) -> list[str]:
    """The arguments with a path after `--file`, also where it stood alone; a name of a session is not taken for one."""
    found: list[str] = []
    for at, word in enumerate(args):
        after = args[at + 1] if at + 1 < len(args) else ""
        is_path = not after.startswith("-") and (after.endswith(".md") or "/" in after)
        found.append(f"--file={FILE_NAME}" if word == "--file" and not is_path else word)
    return found


@verb(app, "init", cls=_Init)
def init(
    cli: Cli,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A session to open, or the name of one that is open.")
    ] = None,
    goal: Goal = None,
    file: Annotated[
        str | None,
        typer.Option(
            "--file",
            metavar="[PATH]",
            help=f"Keep the latest checkpoint in a file, {FILE_NAME} at the top if none is named.",
        ),
    ] = None,
    move: Annotated[bool, typer.Option("--move", help="Tie the folder anew if it belongs to another session.")] = False,
    agents: Annotated[
        bool | None,
        typer.Option(
            "--agents/--no-agents",
            help="Keep six lines on Sitrep in AGENTS.md; if neither is said, where that file is there already.",
        ),
    ] = None,
) -> None:
    """Tie this folder, with all work trees of its repository, to a session.

    Which session: NAME (opened if none of that name is open), --session, else the session that is meant; where none is
    open at all, one is opened that is called like the folder.
    """
    cwd = Path.cwd()
    path = _file(cwd, file) if file else None
    session = _wanted(cli, name, goal, cwd, move)
    # Of a folder of another machine the daemon cannot see to which work tree it belongs.
    told = {"path": str(cwd if cli.is_store else top_of(cwd)), "file": str(path) if path else None, "move": move}
    cli.session = session["id"]
    answer = cli.fresh_client().post("/sessions/current/folders", told)
    cli.show(answer, lambda tie: _say(tie, session))
    _keep_block(top_of(cwd) / AGENTS_NAME, agents)


def _keep_block(path: Path, wanted: bool | None) -> None:
    """Put the lines into AGENTS.md, or bring them up to date, and say so where that changed it."""
    if wanted is False or (wanted is None and not path.exists()):
        return
    from sitrepd.agents.install.block import with_block

    try:
        before = path.read_bytes().decode() if path.exists() else ""
        after = with_block(before)
        if after != before:
            path.write_bytes(after.encode())
            output.warn(f"{path} has the six lines on Sitrep.")
    except (OSError, ValueError) as error:
        output.warn(f"Note: {path} was left as it is: {getattr(error, 'strerror', None) or error}.")


def _wanted(cli: Cli, name: str | None, goal: str | None, cwd: Path, move: bool) -> dict[str, Any]:
    if name is not None and cli.session is not None:
        raise typer.BadParameter("say NAME or --session, not both.")
    if name is None:
        try:
            found: dict[str, Any] = the_session(cli).data
        except Refused as error:
            if error.answer.problem.get("sessions") != []:
                raise
            return _open(cli, top_of(cwd).name or "session", goal)
        if found.get("ended_at") and not cli.session_told:
            raise Conflict(
                f"This folder is tied to {found['id']} ({found['name']}), which is closed. Open it again with "
                f"`sitrep session reopen {found['id']}`, or another one with `sitrep init NAME`."
            )
        return found
    same = [one for one in _open_sessions(cli) if one["name"] == name]
    if len(same) > 1:
        raise Conflict(f"{len(same)} open sessions are called {name!r}. Say which with --session.", sessions=same)
    if same:
        return same[0]
    _refuse_other_tie(cli, cwd, move)
    return _open(cli, name, goal)


def _open_sessions(cli: Cli) -> list[dict[str, Any]]:
    found = cli.client.get("/sessions", limit=1000).data["data"]
    return [one for one in found if not one.get("ended_at")]


def _refuse_other_tie(cli: Cli, cwd: Path, move: bool) -> None:
    """Before a session is opened that the folder could then not be tied to."""
    still_open = {one["id"]: one for one in _open_sessions(cli)}
    for tie in cli.client.get("/folders", path=str(cwd if cli.is_store else top_of(cwd))).data:
        other = still_open.get(tie["session"])
        if other is not None and not move:
            raise Conflict(
                f"{tie['path']} is tied to {other['id']} ({other['name']}). Close that session, or tie the folder anew "
                "with `sitrep init NAME --move`."
            )


def _open(cli: Cli, name: str, goal: str | None) -> dict[str, Any]:
    told = {"name": name} | ({"goal": goal} if goal else {})
    opened: dict[str, Any] = cli.client.post("/sessions", told).data
    output.warn(f"Opened {opened['id']}: {opened['name']}")
    return opened


def _file(cwd: Path, told: str) -> Path:
    path = top_of(cwd) / FILE_NAME if told == FILE_NAME else Path(os.path.normpath(cwd / Path(told).expanduser()))
    try:
        begin = path.read_bytes()[:32]
    except FileNotFoundError:
        return path
    except OSError as error:
        raise Conflict(f"{path} cannot be used: {error.strerror}.") from error
    if begin.strip() and not begin.startswith(_OURS):
        raise Conflict(f"{path} is there already and was not written by Sitrep. Name another file, or move it away.")
    return path


def _say(tie: dict[str, Any], session: dict[str, Any]) -> None:
    output.say(f"{tie['path']} is tied to {session['id']} ({session['name']}).")
    if tie.get("file"):
        output.say(f"The latest checkpoint is kept in {tie['file']}.")
