"""`sitrep logs`: the log of a launched server."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any

import typer

from sitrepd.cli import output
from sitrepd.cli.stop import Launch
from sitrepd.cli.verbs import Cli, verb
from sitrepd.launches.states import ENDED

app = typer.Typer()
_POLL_S = 0.3
_PIECE_BYTES = 1 << 20
_LINE_BYTES = 400


@verb(app, "logs")
def logs(
    cli: Cli,
    launch: Launch,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many of the last lines.")] = 100,
    whole: Annotated[bool, typer.Option("--all", help="The whole log.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as it grows, until the server ends.")] = False,
) -> None:
    """Print the log of a launch; with --json the pieces as the daemon gives them, one a line."""
    path = f"/launches/{launch}/log"
    piece = cli.client.get(path, offset=0, limit=_PIECE_BYTES) if whole else _tail(cli, path, lines)
    told = piece.data
    _write(cli, piece, told["text"] if whole else last_lines(told["text"], lines))
    at = told["next_offset"]
    while whole and at < told["size"]:
        at = _go_on(cli, path, at)
    while follow:
        ended = cli.client.get(f"/launches/{launch}/live").data.get("state") in ENDED
        moved = _go_on(cli, path, at)
        if moved == at and ended:
            return
        if moved == at:
            time.sleep(_POLL_S)
        at = moved


def _tail(cli: Cli, path: str, lines: int) -> Any:
    """A piece from the end that has so many lines, unless the log or the largest piece has fewer."""
    limit = min(_PIECE_BYTES, max(4096, lines * _LINE_BYTES))
    piece = cli.client.get(path, limit=limit)
    if piece.data["text"].count("\n") <= lines and limit < _PIECE_BYTES and piece.data["offset"] > 0:
        piece = cli.client.get(path, limit=_PIECE_BYTES)
    return piece


def _go_on(cli: Cli, path: str, at: int) -> int:
    """Write what follows; the offset after it. A log that has become shorter is read from its beginning."""
    piece = cli.client.get(path, offset=at, limit=_PIECE_BYTES)
    told = piece.data
    if told["size"] < at:
        return 0
    if told["text"]:
        _write(cli, piece, told["text"])
    return int(told["next_offset"])


def last_lines(text: str, count: int) -> str:
    """The last `count` lines; one that is not ended yet counts too."""
    kept = text.splitlines(keepends=True)
    return "".join(kept[-count:]) if count else ""


def _write(cli: Cli, piece: Any, text: str) -> None:
    if cli.json:
        output.write_bytes(piece.body)
        return
    shown = "\n".join(output.printable(line) for line in text.split("\n")) if output.in_terminal() else text
    sys.stdout.write(shown)
    sys.stdout.flush()
