"""What the statements before the server do to the shell's variables and working directory."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sitrepd.launches.shell.names import CHANGES_ANYTHING, HARMLESS_AFTER_OR, KEEPS_CWD, MAKES_NO_FILES, NEEDS_SHELL
from sitrepd.launches.shell.tree import Word, assignments, operands, simple, statements
from sitrepd.launches.shell.words import ShellState, expand_value, expand_word

if TYPE_CHECKING:
    from tree_sitter import Node

_MOVES = re.compile(r"\b(?:cd|pushd|popd|eval|source)\b|(?:^|[\s;&|])\.\s")
_LEAVES_SHELL_ALONE = frozenset({"pipeline", "subshell", "negated_command", "test_command", "function_definition"})


@dataclass(slots=True)
class Prelude:
    """The shell after the statements seen so far, and what they rely on.

    `exports` are the raw values of what they export; `relied` are folders and files that must exist (offset, kind,
    path), asked for only while nothing before could have made them.
    """

    state: ShellState
    exports: dict[str, str] = field(default_factory=dict)
    relied: list[tuple[int, str, str]] = field(default_factory=list)
    makes_files: bool = False
    traps: bool = False
    exports_all: bool = False

    def apply(self, node: Node, source: bytes) -> None:
        """Follow one statement (of the foreground)."""
        kind = node.type
        if kind == "list":
            self._apply_list(node, source)
        elif kind == "redirected_statement":
            body = node.child_by_field_name("body")
            self.makes_files = True
            if body:
                self.apply(body, source)
        elif kind == "compound_statement" and node.children[0].type == "{":
            for statement in statements(node):
                self.apply(statement.node, source)
        elif kind == "command":
            self._apply_command(node, source)
        elif kind in ("variable_assignment", "variable_assignments"):
            self.assign(node, source, exported=self.exports_all)
        elif kind == "declaration_command":
            self._declare(node, source)
        elif kind == "unset_command":
            for child in node.named_children:
                self._unset((child.text or b"").decode())
        elif kind in _LEAVES_SHELL_ALONE:
            self.makes_files = True
        else:
            self._lose_track(node)

    def _apply_list(self, node: Node, source: bytes) -> None:
        for operator, part in operands(node):
            words = list(_raw_words(part, source))
            if operator != "||":
                self.apply(part, source)
            elif not words or words[0] not in HARMLESS_AFTER_OR:
                self._lose_track(part)

    def _lose_track(self, node: Node) -> None:
        moves = _MOVES.search((node.text or b"").decode())
        self.state = replace(self.state.unsure(), cwd=None if moves else self.state.cwd)
        self.makes_files = True

    def _apply_command(self, node: Node, source: bytes) -> None:
        told = simple(node, [], source).words
        name, arguments = (told[0].raw, told[1:]) if told else ("", ())
        if name == "cd":
            self._change_folder(arguments)
        elif name in ("source", "."):
            self._source(arguments)
        elif name == "set":
            self.exports_all |= any(word.raw in ("-a", "-o", "allexport") for word in arguments)
        elif name in CHANGES_ANYTHING:
            self.traps |= name in NEEDS_SHELL
            self.state = replace(self.state.unsure(), cwd=self.state.cwd if name in KEEPS_CWD else None)
        elif name not in MAKES_NO_FILES:
            self.makes_files = True

    def _change_folder(self, arguments: tuple[Word, ...]) -> None:
        plain = [word for word in arguments if word.raw not in ("--", "-P", "-L")]
        target = (
            expand_word(plain[0].raw, self.state)
            if len(plain) == 1
            else ([] if plain else expand_word("~", self.state))
        )
        if target is None or len(target) != 1 or target[0] == "-" or self.state.cwd is None:
            self.state = replace(self.state, cwd=None)
            return
        folder = os.path.normpath(os.path.join(self.state.cwd, target[0]))
        if plain and not self.makes_files:
            self.relied.append((plain[0].start, "folder", folder))
        self.state = replace(self.state.assign("OLDPWD", self.state.cwd).assign("PWD", folder), cwd=folder)

    def _source(self, arguments: tuple[Word, ...]) -> None:
        target = expand_word(arguments[0].raw, self.state) if arguments else None
        if not target or self.state.cwd is None:
            self.state = self.state.unsure()
            return
        path = os.path.normpath(os.path.join(self.state.cwd, target[0]))
        if not self.makes_files and "/" in target[0]:
            self.relied.append((arguments[0].start, "file", path))
        folder = os.path.dirname(os.path.abspath(path))
        if os.path.basename(path) != "activate" or os.path.basename(folder) != "bin":
            self.state = self.state.unsure()
            return
        search = self.state.variables.get("PATH", os.defpath)
        self.state = self.state.assign("PATH", search and f"{folder}:{search}")
        self.state = self.state.assign("VIRTUAL_ENV", os.path.dirname(folder))

    def assign(self, node: Node, source: bytes, *, exported: bool) -> dict[str, str]:
        """Follow `A=1 B=2`; the raw values of those that programs will see."""
        seen = {}
        for name, operator, raw, _ in assignments(node, source):
            self.set(name, operator, raw)
            if exported or name in self.state.exported:
                seen[name] = raw if operator == "=" else f"${{{name}}}{raw}"
                self.state = replace(self.state, exported=self.state.exported | {name})
        self.exports |= seen
        return seen

    def set(self, name: str, operator: str, raw: str) -> None:
        """Follow one assignment (`=` or `+=`)."""
        value = expand_value(raw, self.state)
        before = self.state.variables.get(name, "" if self.state.sure else None)
        if operator == "+=":
            value = None if value is None or before is None else before + value
        self.state = self.state.assign(name, value)

    def _declare(self, node: Node, source: bytes) -> None:
        keyword = node.children[0].type
        flags = [(child.text or b"").decode() for child in node.children if child.type == "word"]
        exported = (keyword == "export" and "-n" not in flags) or any("x" in flag for flag in flags if flag[0] == "-")
        self.assign(node, source, exported=exported)
        for child in node.children:
            name = (child.text or b"").decode()
            if exported and child.type == "variable_name":
                self.exports[name] = f"${name}"
                self.state = replace(self.state, exported=self.state.exported | {name})

    def _unset(self, name: str) -> None:
        kept = {key: value for key, value in self.state.variables.items() if key != name}
        self.exports.pop(name, None)
        self.state = replace(self.state, variables=kept, exported=self.state.exported - {name})


def _raw_words(node: Node, source: bytes) -> Iterator[str]:
    if node.type == "command":
        yield from (word.raw for word in simple(node, [], source).words)
