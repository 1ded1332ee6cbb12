"""A command's flags against the options of the installed parser."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import pairwise
from typing import Any, NoReturn

from sitrepd.launches.check.installed import installed_sglang
from sitrepd.launches.check.model import Check, Level, Look, Subject
from sitrepd.launches.check.renamed import RENAMED

Options = Sequence[Mapping[str, Any]]
_ENDS = re.compile(r"&{1,2}|\|{1,2}|;|(?:\d|&)?>.*")
_SHORT = len("--tp")
_MOST_MESSAGE = 200
_TYPES = {"int": int, "float": float}


def check_flags(subject: Subject, look: Look) -> Iterable[Check]:
    """Also that the interpreter is there, and has an SGLang."""
    if not subject.words:
        return
    found = installed_sglang(subject, look.flags_dir, look.flags_timeout_s)
    where = f"SGLang {found.version}" if found.version else "SGLang"
    if not found.found and not _is_direct(subject.argv):
        return
    if not found.found:
        fix = "Activate the environment that has it, or name its Python in the command."
        yield Check(name="interpreter", level="error", text=f"{found.reason}: the server cannot start.", fix=fix)
    elif found.options is None:
        yield Check(name="flags", level="note", text=f"The flags were not checked: {found.reason}.")
    else:
        yield Check(name="interpreter", level="ok", text=f"{found.interpreter.path} has {where}.")
        against = list(compared(subject.words, found.options, where, exact=subject.is_exact))
        yield from against or [Check(name="flags", level="ok", text=f"{where} knows all flags.")]


def _is_direct(argv: Sequence[str]) -> bool:
    """Whether the interpreter itself is to run SGLang; where another module wraps it, who knows what that does."""
    modules = [after for word, after in pairwise(argv) if word == "-m"]
    return not modules or modules[0].startswith("sglang")


def compared(words: Sequence[str], options: Options, where: str, *, exact: bool = True) -> Iterable[Check]:
    """`words` are those behind the program's name; where they are not `exact`, values are not looked at."""
    table = {name: option for option in options for name in option["opts"]}
    if not table:
        return
    named = list(dict.fromkeys(_flags_of(words)))
    faults = [check for name in named if (check := _about(name, table, where)) is not None]
    yield from faults
    if exact and not any(check.level == "error" for check in faults):
        yield from _values(words, options)


def _flags_of(words: Sequence[str]) -> Iterable[str]:
    for word in words:
        if _ENDS.fullmatch(word) or word == "--":
            return
        if word.startswith("--"):
            yield word.partition("=")[0]


def _about(name: str, table: Mapping[str, Mapping[str, Any]], where: str) -> Check | None:
    if name in table:
        return _deprecated(name, table[name], where)
    begins = [option for option in table if option.startswith(name)]
    meant = {str(table[option]["dest"]) for option in begins}
    if len(meant) == 1:
        level: Level = "ok" if len(name) <= _SHORT else "note"
        return Check(name="flags", level=level, text=f"{name} is read by {where} as {begins[0]}.")
    new, fix = _instead(name, table)
    if begins:
        listed = ", ".join(begins[:4]) + (", …" if len(begins) > 4 else "")
        text = f"{name} is ambiguous in {where}: it could be {listed}."
        return Check(name="flags", level="error", text=text, fix=fix if new else "Write the whole name.")
    return Check(name="flags", level="error", text=f"{where} does not know {name}.", fix=fix)


def _deprecated(name: str, option: Mapping[str, Any], where: str) -> Check | None:
    told = str(option.get("help") or "")
    if not re.match(r"\W*deprecated", told, re.IGNORECASE):
        return None
    return Check(name="flags", level="note", text=f"{where} says of {name}: {told.strip()}")


def _instead(name: str, table: Mapping[str, Any]) -> tuple[bool, str | None]:
    """(whether a new name is known, what to write)"""
    new = RENAMED.get(name)
    if new == "":
        return True, "Leave it out: it was taken away, or is always on."
    if new is not None and new.split()[0] in table:
        return True, f"Write {new}."
    near = get_close_matches(name, table, n=1, cutoff=0.75)
    return False, f"Did you mean {near[0]}?" if near else None


class _Refused(Exception):
    """What argparse would have printed before it ended the server."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _Refused(message)


def _values(words: Sequence[str], options: Options) -> Iterable[Check]:
    """The first value that the parser would refuse."""
    parser = _Parser(add_help=False)
    for option in options:
        if option["opts"] and "--help" not in option["opts"]:
            _add(parser, option)
    until = next((at for at, word in enumerate(words) if _ENDS.fullmatch(word)), len(words))
    try:
        parser.parse_known_args(list(words[:until]))
    except _Refused as error:
        yield Check(name="flags", level="error", text=f"The server's parser would refuse this: {_short(str(error))}.")
    except (ValueError, TypeError):
        return


def _short(message: str) -> str:
    """A list of dozens of choices becomes the nearest ones."""
    match = re.match(r"(.*invalid choice: ['\"]?([^'\"]*)['\"]?) \(choose from (.*)\)$", message)
    if match is None or len(message) < _MOST_MESSAGE:
        return message
    choices = [one.strip(" '\"") for one in match[3].split(",")]
    near = get_close_matches(match[2], choices, n=4, cutoff=0.3) or choices[:6]
    return f"{match[1]} (one of {len(choices)}, such as {', '.join(near)})"


def _add(parser: argparse.ArgumentParser, option: Mapping[str, Any]) -> None:
    about: dict[str, Any] = {"dest": option["dest"]}
    if option["nargs"] == 0:
        about["action"] = "store_true"
    else:
        known = option["type"] in (None, "str", "int", "float")
        about |= {"nargs": option["nargs"], "type": _TYPES.get(option["type"], str)}
        about["choices"] = option["choices"] if known else None
    try:
        parser.add_argument(*option["opts"], **about)
    except (ValueError, TypeError, argparse.ArgumentError):
        return
