"""`sitrep resume`: hands the latest checkpoint to an agent, and prints nothing else."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from sitrepd.cli import output
from sitrepd.cli.checkpoints import Budget, print_document
from sitrepd.cli.client import Answer, Refused, Unreachable
from sitrepd.cli.verbs import Cli, verb

app = typer.Typer()
_CHARACTERS_A_TOKEN = 4
_DAEMON_FAILED = 500
_LEAST = 500
_PRESETS = {"brief": 2000, "standard": 9000}
_CUT = "[…]"


@verb(app, "resume")
def resume(
    cli: Cli,
    budget: Budget = None,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.1, metavar="S", help="Seconds to wait for the daemon's answer.")
    ] = 20,
    to: Annotated[
        str | None,
        typer.Option("--to", help="Who it is handed to, as the delivery remembers it; cli, or terminal, if absent."),
    ] = None,
) -> None:
    """Print the latest checkpoint for an agent, with what has changed since in front, and nothing else.

    Where no daemon can be had, the last one that was written to the store's folder, with a line that says so.
    """
    # A person who reads it on a screen is not expected to name it.
    told = {"to": to or ("terminal" if output.in_terminal() else "cli")} | (
        {} if budget is None else {"budget": budget}
    )
    try:
        cli.client.timeout_s = timeout
        answer = cli.client.post("/sessions/current/resume", told, format="json" if cli.json else None)
    except Unreachable as error:
        answer = left_behind(cli, error, budget)
    except Refused as error:
        # A daemon that cannot write still leaves what was written before.
        if error.answer.status < _DAEMON_FAILED:
            raise
        answer = left_behind(cli, error, budget)
    print_document(answer, "json" if cli.json else "md")


def left_behind(cli: Cli, error: Unreachable | Refused, budget: str | None) -> Answer:
    """The last checkpoint that was written, with a line that says so; what was wrong where there is none."""
    characters = _characters(budget)
    path = _last_file(cli, error)
    why = error.detail.rstrip(".")
    head = f"(The daemon gives none: {why}. This is the last checkpoint that was written, {path}.)\n\n"
    text = head + _fitting(path, None if characters is None else characters - len(head))
    if characters is not None and len(text) > characters:
        text = _whole_lines(text, characters)
    if cli.json:
        from sitrepd.cli.client import dump

        return Answer(200, dump({"live": False, "path": str(path), "text": text}))
    return Answer(200, text.encode())


def _fitting(path: Path, room: int | None) -> str:
    """The text as it was written; where that is too long, made anew from the section model beside it."""
    text = path.read_text(errors="replace")
    if room is None or len(text) <= room or room < _LEAST:
        return text
    from sitrepd.checkpoints.render import to_markdown
    from sitrepd.checkpoints.templates import Templates

    try:
        rendered = json.loads(path.with_suffix(".json").read_text())
        return to_markdown(rendered, room, Templates())
    except (OSError, ValueError, KeyError, TypeError):
        return text


def _whole_lines(text: str, characters: int) -> str:
    """As many lines as there is room for, without half a block of code."""
    lines: list[str] = []
    for line in text.split("\n"):
        if sum(len(one) + 1 for one in (*lines, line, _CUT)) > characters:
            break
        lines.append(line)
    fences = [number for number, line in enumerate(lines) if line.startswith("```")]
    if len(fences) % 2:
        del lines[fences[-1] :]
    return "\n".join([*lines, _CUT]) + "\n"


def _characters(budget: str | None) -> int | None:
    """Characters of `9000` or of `2000t` tokens; None for what only the daemon knows."""
    if budget in _PRESETS:
        return _PRESETS[budget]
    digits = (budget or "").removesuffix("t")
    if not digits.isdigit():
        return None
    return int(digits) * (_CHARACTERS_A_TOKEN if str(budget).endswith("t") else 1)


def _last_file(cli: Cli, error: Unreachable | Refused) -> Path:
    """The file of the session that is meant; never a guess among several."""
    found = sorted((cli.store / "latest").glob("*.md")) if cli.is_store else []
    told = cli.session_told
    if told:
        found = [path for path in found if path.stem.lower() == told.lower()]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(str(path) for path in found)
        raise Unreachable(f"{error.detail} Checkpoints that were written: {names}; say which session with --session.")
    print("No checkpoint was left behind either.", file=sys.stderr)
    raise error
