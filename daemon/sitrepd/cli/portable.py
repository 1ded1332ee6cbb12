"""`sitrep import` and `sitrep export`: the portable session file."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from sitrepd.cli import output
from sitrepd.cli.verbs import Cli, verb

app = typer.Typer()
_MOST = 20


@verb(app, "import")
def import_file(
    cli: Cli,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="A session file (JSON Lines), or a checkpoint's JSON; `-` is standard input."
        ),
    ],
    again: Annotated[bool, typer.Option("--again", help="Import it although it was imported before.")] = False,
) -> None:
    """Take in a session file, whole or not at all; a checkpoint's JSON becomes the facts that it tells."""
    body, name = read_input(file)
    answer = cli.client.upload("/import", body, name=name, again=again)
    cli.show(answer, _say)


def read_input(file: str) -> tuple[bytes, str]:
    """The bytes of a file, or of standard input for `-`, and the name that they are known by."""
    if file == "-":
        return sys.stdin.buffer.read(), "stdin"
    try:
        return Path(file).read_bytes(), os.path.basename(file)
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}.") from error


def _say(told: dict[str, Any]) -> None:
    counts = ", ".join(_counted(count, kind) for kind, count in told["counts"].items())
    output.say(f"Imported into {told['session']}: {counts}.")
    missing = told.get("missing", ())
    for one in missing[:_MOST]:
        output.say(f"Not in the checkpoint: {one.rstrip('.')}.")
    if len(missing) > _MOST:
        output.say(f"{len(missing) - _MOST} more are not in the checkpoint; --json lists them.")


@verb(app, "export")
def export(
    cli: Cli,
    to: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write there.")] = None,
) -> None:
    """Print the session that is meant as a session file (JSON Lines; with --json one array)."""
    answer = cli.client.get("/sessions/current/export")
    body = answer.body
    if cli.json:
        # The lines as they are: their numbers keep their decimals.
        lines = [line for line in body.decode().split("\n") if line]
        assert all(json.loads(line) for line in lines)
        body = ("[" + ",\n".join(lines) + "]\n").encode()
    if to is None:
        output.write_bytes(body)
        return
    try:
        to.write_bytes(body)
    except OSError as error:
        raise typer.BadParameter(f"{to} cannot be written: {error.strerror}.") from error


def _counted(count: int, kind: str) -> str:
    """`1 next step`, `3 benchmarks`; a kind is the `type` of a line."""
    word = kind.replace("_", " ")
    return f"{count} {word}" if count == 1 else f"{count} {word}{'es' if word.endswith('ch') else 's'}"
