"""What an agent does with a checkpoint: copies the command, takes the next step. Read from the text alone."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from tests.fidelity import markdown

_STEP = re.compile(r"(?P<id>N\d+) \((?P<state>todo|doing|done|dropped)(?P<more>[^)]*)\): (?P<text>.*)", re.DOTALL)
_ORDER = re.compile(r"order (-?\d+)")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_AROUND = ("nohup", "exec", "setsid", "time")


@dataclass(frozen=True)
class Command:
    env: dict[str, str]
    argv: list[str]


def best_command(text: str) -> Command | None:
    """The command below the best configuration as a shell would take it; None where none was recorded."""
    lines = [line for item in markdown.read(text).of("Best configuration") for line in item.commands]
    return command(lines[0]) if lines else None


def command(line: str) -> Command:
    """Assignments in front, then the words up to a redirection or an ampersand."""
    words = shlex.split(line[: _end(line)])
    env = {}
    while words and _ASSIGNMENT.match(words[0]):
        name, _, value = words.pop(0).partition("=")
        env[name] = value
    while words and words[0] in _AROUND:
        words.pop(0)
    return Command(env, words)


def _end(line: str) -> int:
    """Where the words end: before the first redirection, pipe or ampersand that is not quoted."""
    quote, place = "", 0
    while place < len(line):
        char = line[place]
        if char == "\\" and quote != "'":
            place += 1
        elif char in "'\"" and quote in ("", char):
            quote = "" if quote else char
        elif char in "<>|&;" and not quote:
            return place - 1 if re.search(r"\s\d$", line[:place]) else place
        place += 1
    return place


def next_step(text: str) -> str | None:
    """The open step with the lowest order."""
    found = []
    for place, item in enumerate(markdown.read(text).of("Next steps")):
        step = _STEP.match(item.line)
        if step is not None and step["state"] in ("todo", "doing"):
            order = _ORDER.search(step["more"])
            found.append(((order is None, int(order[1]) if order else 0, place), item.told(step["text"])))
    return min(found)[1] if found else None


def proposed(text: str) -> str:
    """All that the text tells to do or to run."""
    page = markdown.read(text)
    return "\n".join(item.told() for title in ("Next steps", "Best configuration") for item in page.of(title))
