"""What is wrong with a told command line, and where."""

from __future__ import annotations

import os
import re
import subprocess

from sitrepd.errors import SitrepError

_SAID = re.compile(r"^[^\n]*?: line (\d+): (.*)$", re.MULTILINE)


class CommandError(SitrepError):
    """The command line cannot be launched; line and column count from 1, in characters."""

    status = 422
    title = "The command cannot be launched"

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(f"Line {line}, column {column}: {message}", line=line, column=column)
        self.message = message
        self.line = line
        self.column = column


def position(text: str, offset: int) -> tuple[int, int]:
    """Line and column of a character offset."""
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def error_at(text: str, offset: int, message: str) -> CommandError:
    """A CommandError at a character offset of the text."""
    return CommandError(message, *position(text, offset))


def check_syntax(text: str, bash: str | None) -> None:
    """Let bash itself read the text without running it (`bash -n`, 3 ms); its complaint becomes a CommandError."""
    if bash is None:
        return
    plain = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        [bash, "-n", "-c", text], env=plain, capture_output=True, stdin=subprocess.DEVNULL, timeout=10, check=False
    )
    if done.returncode == 0:
        return
    if (opened := unclosed_quote(text)) is not None:
        raise error_at(text, opened, f"The quote {text[opened]} that opens here is never closed.")
    said = _SAID.search(done.stderr.decode(errors="replace"))
    line = int(said[1]) if said else 1
    message = said[2] if said else done.stderr.decode(errors="replace").strip()
    source = [*text.split("\n"), ""][min(line, text.count("\n") + 1) - 1]
    raise CommandError(f"The shell does not understand it: {message}.", line, _column(source, message))


def _column(source: str, message: str) -> int:
    token = re.search(r"token `(.+)'$", message)
    found = source.rfind(token[1]) if token else -1
    return found + 1 if found >= 0 else 1


def unclosed_quote(text: str) -> int | None:
    """The offset of the quote that is open when the text ends (comments and escapes seen, expansions not)."""
    at, opened = 0, None
    while at < len(text):
        char = text[at]
        if opened is None and char == "#" and (at == 0 or text[at - 1] in " \t\n;&|("):
            at = text.find("\n", at)
            if at < 0:
                return None
        elif char == "\\" and (opened is None or text[opened] == '"'):
            at += 1
        elif opened is None and char in "'\"":
            opened = at
        elif opened is not None and char == text[opened]:
            opened = None
        at += 1
    return opened
