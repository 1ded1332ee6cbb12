"""A server's command line as people paste it: what it runs, where its output goes, and a script that runs it alone."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from sitrepd.launches.shell.errors import CommandError, check_syntax, error_at, position
from sitrepd.launches.shell.names import BUILTINS
from sitrepd.launches.shell.reader import Reading, edited, read, server_state
from sitrepd.launches.shell.tree import Unread, parse
from sitrepd.launches.shell.words import ShellState, expand_word

__all__ = ["CommandError", "ShellCommand", "check_executable", "flags_text", "parse_command", "runnable_script"]

_PROMPT = re.compile(r"\s*(?:\([\w.-]+\)\s*)?(?:[\w.-]+@[\w.-]+:\S*)?\$\s+")
_BACKGROUND = re.compile(r"(?<![&\\>])&\s*$")

_WAITS = '\nsitrep_status=$?; [ -z "$!" ] || { wait "$!"; sitrep_status=$?; }; exit "$sitrep_status"'
"""After a text that was not taken apart: if it left a background job, that is the server."""


@dataclass(frozen=True, slots=True)
class _Relied:
    """Something that must exist for the start to work, by its place in the text."""

    kind: str
    path: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """What a told command line means.

    `argv` are the words of the server; those at the places `raw_words` could not be known and stand as told.
    `assignments` are raw shell text, `environment` the values (None where unknown) of what it sets for the server.
    `log_path` is None when standard output goes where the launcher sends it, or to a place that cannot be known
    (`log_raw` then says it as told); the same for `stderr_path`. `understood` is false for valid shell that could not
    be taken apart: it is run all the same.
    """

    told: str
    prelude: str = ""
    assignments: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str | None] = field(default_factory=dict, repr=False)
    argv: tuple[str, ...] = ()
    raw_words: frozenset[int] = frozenset()
    cwd: str | None = None
    log_path: str | None = None
    log_raw: str | None = None
    append: bool = False
    stderr_path: str | None = None
    stderr_raw: str | None = None
    stderr_append: bool = False
    tee_path: str | None = None
    nohup: bool = False
    understood: bool = True
    execs: bool = False
    search_path: str | None = None
    _script: str = field(default="", repr=False)
    _relied: tuple[_Relied, ...] = field(default=(), repr=False)


def parse_command(
    text: str, env: Mapping[str, str], cwd: str, keep: Callable[[str], bool] = lambda _name: False
) -> ShellCommand:
    """Read a command line as it would run in this environment and folder, without running it.

    Variables for which `keep` is true (secrets) are not replaced by their values in `argv`. Raises CommandError.
    """
    plain = text.replace("\r\n", "\n")
    _check_text(plain)
    check_syntax(plain, shutil.which("bash", path=env.get("PATH")) or shutil.which("bash"))
    source = plain.encode()
    state = ShellState({"PWD": cwd, **env}, cwd, exported=frozenset(env), keep=keep)
    try:
        return _command(text, read(parse(source), source, state))
    except Unread:
        return ShellCommand(text, understood=False, _script=_BACKGROUND.sub("", plain) + _WAITS)


def _check_text(text: str) -> None:
    if "\0" in text:
        raise error_at(text, text.index("\0"), "A NUL character cannot be part of a command.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise error_at(text, error.start, "This character is not valid Unicode.") from None
    if prompt := _PROMPT.match(text):
        raise error_at(text, 0, f"It begins with a prompt: leave out {prompt[0].strip()!r}.")
    if not text.strip():
        raise CommandError("There is nothing to run: give the command that starts the server.", 1, 1)


def _command(told: str, reading: Reading) -> ShellCommand:
    state = server_state(reading)
    argv, raw_words = _argv(reading)
    exported = reading.prelude.exports | {name: told for name, (told, _) in reading.assigned.items()}
    out, err = reading.streams.get(1), reading.streams.get(2)
    return ShellCommand(
        told=told,
        prelude="\n".join(reading.source[start:end].decode() for start, end in reading.before),
        assignments=exported,
        environment={name: state.variables.get(name) for name in exported},
        argv=argv,
        raw_words=raw_words,
        cwd=state.cwd,
        log_path=out.path if out else None,
        log_raw=out.raw if out else None,
        append=bool(out and out.append),
        stderr_path=err.path if err else None,
        stderr_raw=err.raw if err else None,
        stderr_append=bool(err and err.append),
        tee_path=reading.tee.path if reading.tee else None,
        nohup=reading.nohup,
        execs=reading.execs,
        search_path=state.variables.get("PATH", os.defpath if state.sure else None),
        _script=_script(reading),
        _relied=_relied(reading, argv, raw_words),
    )


def _argv(reading: Reading) -> tuple[tuple[str, ...], frozenset[int]]:
    argv: list[str] = []
    raw_words = set()
    for word in reading.words:
        known = expand_word(word.raw, reading.state)
        if known is None:
            raw_words.add(len(argv))
        argv += [word.raw] if known is None else known
    return tuple(argv), frozenset(raw_words)


def _script(reading: Reading) -> str:
    if not reading.execs:
        return edited(reading.source, reading.plain_edits) + reading.suffix
    return ("trap '' HUP; " if reading.nohup else "") + edited(reading.source, reading.edits)


def _relied(reading: Reading, argv: tuple[str, ...], raw_words: frozenset[int]) -> tuple[_Relied, ...]:
    text, source = reading.text(), reading.source
    found = [(offset, kind, path) for offset, kind, path in reading.prelude.relied]
    if not reading.prelude.makes_files:
        targets = [one for one in (reading.streams.get(1), reading.streams.get(2)) if one and one.path]
        found += [(one.offset, "log", one.path or "") for one in dict.fromkeys(targets)]
        if 0 not in raw_words and argv:
            found.append((reading.words[0].start, "program", argv[0]))
    places = (position(text, len(source[:offset].decode())) for offset, _, _ in found)
    return tuple(_Relied(kind, path, *place) for (_, kind, path), place in zip(found, places, strict=True))


def check_executable(command: ShellCommand) -> None:
    """Raise CommandError for a folder, file or program that the command needs and that is not there.

    What the command itself may make, or what only running it would tell, is not asked for.
    """
    for one in command._relied:
        if problem := _problem(one, command):
            raise CommandError(problem, one.line, one.column)


def _problem(one: _Relied, command: ShellCommand) -> str | None:
    if one.kind == "folder":
        return None if os.path.isdir(one.path) else f"No such folder: {one.path}."
    if one.kind == "file":
        return None if os.path.exists(one.path) else f"No such file: {one.path}."
    if one.kind == "log":
        return _log_problem(one.path)
    return _program_problem(one.path, command)


def _log_problem(path: str) -> str | None:
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        return f"The log's folder does not exist: {folder}. Create it first (mkdir -p {shlex.quote(folder)})."
    if os.path.isdir(path):
        return f"{path} is a folder: give the name of a file for the log."
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        return f"The log {path} cannot be written."
    return None


def _program_problem(name: str, command: ShellCommand) -> str | None:
    if "/" in name:
        if command.cwd is None:
            return None
        path = os.path.normpath(os.path.join(command.cwd, name))
        if not os.path.exists(path):
            return f"No such program: {path}."
        if os.path.isdir(path):
            return f"{path} is a folder, not a program."
        return None if os.access(path, os.X_OK) else f"{path} is not executable: chmod +x it."
    if name in BUILTINS or command.search_path is None or shutil.which(name, path=command.search_path):
        return None
    return f"No such program: {name}; PATH searched: {command.search_path}."


def runnable_script(command: ShellCommand) -> str:
    """Bash that runs the command as told but in the foreground; the server replaces the shell where `execs` is true.

    Redirections stay as told; what the text does not redirect goes to the descriptors that the shell is given.
    """
    return command._script


def flags_text(argv: Iterable[str]) -> str:
    """One line of shell that gives exactly these words."""
    return " ".join(_quoted(word) for word in argv)


def _quoted(word: str) -> str:
    if word.isprintable():
        return shlex.quote(word)
    escaped = "".join(_escaped(char) for char in word)
    return f"$'{escaped}'"


def _escaped(char: str) -> str:
    if char in "\\'":
        return f"\\{char}"
    if char.isprintable():
        return char
    code = ord(char)
    return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(char) or (f"\\{code:03o}" if code < 128 else f"\\U{code:08x}")
