"""A command with flags, variables or its log changed: a shell line textually, its quoting kept, else word by word."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sitrepd.errors import InvalidFact
from sitrepd.launches.repeat.words import Change, Known, apply, operations
from sitrepd.launches.shell.reader import Reading, edited, read
from sitrepd.launches.shell.tree import Unread, Word, parse, simple
from sitrepd.launches.shell.words import ShellState, expand_word

if TYPE_CHECKING:
    from tree_sitter import Node

_SHELLS = ("bash", "sh", "dash", "zsh")
Edit = tuple[int, int, str]


def change_argv(argv: Sequence[str], change: Change) -> list[str]:
    """The words of a process; those of `bash -c "…"` are changed inside that line."""
    inner = _inner(list(argv))
    if inner is not None:
        changed = change_line(argv[inner], {}, "/", replace(change, env={}, log_path=None))
        return [*argv[:inner], changed, *argv[inner + 1 :]]
    return apply(argv, operations([Known(word, word) for word in argv], change))


def change_line(text: str, env: Mapping[str, str], cwd: str, change: Change) -> str:
    """A shell line; raises InvalidFact where it is not clear which of its words belong to the server."""
    plain = text.replace("\r\n", "\n")
    source = plain.encode()
    try:
        root = parse(source)
        reading = read(root, source, ShellState({"PWD": cwd, **env}, cwd, exported=frozenset(env)))
    except Unread:
        raise InvalidFact(
            "This shell line is too involved to be changed flag by flag: launch it again with the changed line."
        ) from None
    edits = [*_flag_edits(reading, change), *_env_edits(root, reading, change.env), *_log_edits(reading, change)]
    return edited(source, edits)


def _flag_edits(reading: Reading, change: Change) -> Iterator[Edit]:
    if not change.of_flags:
        return
    words = reading.words
    known = [Known(_one(word, reading), word.raw) for word in words]
    inner = _inner([one.text or one.raw for one in known])
    if inner is not None:
        yield _inner_edit(reading, known, inner, change)
        return
    for op in operations(known, change):
        new = " ".join(map(shlex.quote, op.new))
        if op.first == op.last:
            at = words[op.first - 1].end
            yield at, at, f" {new}"
        elif not op.new:
            yield words[op.first - 1].end, words[op.last - 1].end, ""
        else:
            yield words[op.first].start, words[op.last - 1].end, new


def _inner_edit(reading: Reading, known: Sequence[Known], inner: int, change: Change) -> Edit:
    word, text = reading.words[inner], known[inner].text
    if text is None or (word.raw[:1] != "'" and any(sign in word.raw for sign in "$`")):
        raise InvalidFact("The line inside `bash -c` has variables of the line around it: launch the changed line.")
    variables = {name: value for name, value in reading.state.variables.items() if value is not None}
    changed = change_line(text, variables, reading.state.cwd or "/", replace(change, env={}, log_path=None))
    return word.start, word.end, shlex.quote(changed)


def _one(word: Word, reading: Reading) -> str | None:
    found = expand_word(word.raw, reading.state)
    return found[0] if found is not None and len(found) == 1 else None


def _inner(argv: Sequence[str]) -> int | None:
    """The place of the shell line in `bash -c LINE`."""
    if not argv or os.path.basename(argv[0]) not in _SHELLS:
        return None
    for place, word in enumerate(argv[1:-1], 1):
        if not word.startswith("-"):
            return None
        if word.endswith("c") and not word.startswith("--"):
            return place + 1
    return None


def _env_edits(root: Node, reading: Reading, env: Mapping[str, str]) -> Iterator[Edit]:
    """The last assignment of each variable gets the value; one that has none is put before the server's command."""
    if not env:
        return
    command = _command_of(root, reading.words[0])
    missing = []
    for name, value in env.items():
        places = [*_assigned(root, name), *_given_to_env(command, reading, name)]
        if places:
            start, end = places[-1]
            yield start, end, f"{name}={shlex.quote(value)}"
        else:
            missing.append(f"{name}={shlex.quote(value)} ")
    if missing:
        yield command.start_byte, command.start_byte, "".join(missing)


def _command_of(node: Node, word: Word) -> Node:
    """The innermost simple command that has the word in it."""
    for child in node.children:
        if child.start_byte <= word.start < child.end_byte:
            deeper = _command_of(child, word)
            return node if node.type == "command" and deeper.type != "command" else deeper
    return node


def _assigned(node: Node, name: str) -> Iterator[tuple[int, int]]:
    if node.type == "variable_assignment":
        told = node.child_by_field_name("name")
        if told is not None and (told.text or b"").decode() == name:
            yield node.start_byte, node.end_byte
        return
    for child in node.children:
        yield from _assigned(child, name)


def _given_to_env(command: Node, reading: Reading, name: str) -> Iterator[tuple[int, int]]:
    """`env NAME=VALUE program`: a plain word of the command, before the program."""
    if command.type != "command":
        return
    for word in simple(command, [], reading.source).words:
        if word.start < reading.words[0].start and word.raw.startswith(f"{name}="):
            yield word.start, word.end


def _log_edits(reading: Reading, change: Change) -> Iterator[Edit]:
    if change.log_path is None:
        return
    target = reading.streams.get(1) or reading.streams.get(2)
    if target is None:
        return
    if target.raw == "|":
        raise InvalidFact("The line sends its output through a pipe: change the line itself, and launch that.")
    yield target.offset, target.offset + len(target.raw.encode()), shlex.quote(change.log_path)
