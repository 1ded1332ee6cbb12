"""A command line as argparse would see it, without knowing the program's options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

_NUMBER = re.compile(r"-\d+(?:\.\d+)?")
Flags = dict[str, str | bool | list[str]]


def words_of(argv: Sequence[str]) -> list[str]:
    """The arguments, those of `bash -c "…"` taken apart as the shell would."""
    words: list[str] = []
    for before, word in zip(["", *argv], argv, strict=False):
        if before in ("-c", "-lc", "-ic", "-exc", "-ec") and " " in word:
            words += _shell_words(word)
        else:
            words.append(word)
    return words


def _shell_words(command: str) -> list[str]:
    try:
        return shlex.split(command, comments=True)
    except ValueError:
        return command.split()


def parse_flags(words: Iterable[str]) -> tuple[Flags, list[str]]:
    """Flags by their long name with `_`, and the words before the first flag.

    `--flag value`, `--flag=value`, `--flag a b c` (a list) and `--flag` (True); a flag told twice keeps its last value,
    as argparse does.
    """
    flags: Flags = {}
    positional: list[str] = []
    name = ""
    for word in words:
        if word in ("&", "&&", "|", "||", ";") or word.startswith((">", "2>", "&>")):
            break
        if word.startswith("--") and len(word) > 2:
            name, equals, value = word[2:].partition("=")
            name = name.replace("-", "_")
            flags[name] = value if equals else True
            name = "" if equals else name
        elif word.startswith("-") and len(word) > 1 and not _NUMBER.fullmatch(word):
            name = word.lstrip("-")
            flags[name] = True
        elif not name:
            positional.append(word)
        else:
            _add(flags, name, word)
    return flags, positional


def _add(flags: Flags, name: str, word: str) -> None:
    value = flags[name]
    if value is True:
        flags[name] = word
    elif isinstance(value, str):
        flags[name] = [value, word]
    elif isinstance(value, list):
        value.append(word)


def text(flags: Flags, *names: str) -> str | None:
    """The value of the first of `names` that has one."""
    for name in names:
        value = flags.get(name)
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return value[-1]
    return None


def whole(flags: Flags, *names: str) -> int | None:
    """None also where the value is no whole number, such as `$PORT`."""
    value = text(flags, *names)
    try:
        return int(value) if value is not None else None
    except ValueError:
        return None


def decimal(flags: Flags, *names: str) -> float | None:
    value = text(flags, *names)
    try:
        return float(value) if value is not None else None
    except ValueError:
        return None
