"""The syntax tree of a command line: statements, words and redirections, by tree-sitter's bash grammar."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_NESTED = re.compile(r"\$\(|`|[<>]\(")
_PIECE = re.compile(r"""(?:\$'(?:\\.|[^'\\])*'|\$\{[^}]*\}|\\.|'[^']*'|"(?:\\.|[^"\\])*"|\S)+""", re.DOTALL)
_PLAIN = re.compile(r"[\w@%+=:,./~-]+")


class Unread(Exception):
    """Valid shell that this grammar does not make out."""


@dataclass(frozen=True, slots=True)
class Word:
    """A told word, by its bytes."""

    start: int
    end: int
    raw: str


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a list; `ampersand` is the byte offset of the `&` that sends it to the background."""

    node: Node
    ampersand: int | None = None


@cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def parse(source: bytes) -> Node:
    """The root of the tree; raises Unread when parts of it were not understood."""
    root = _parser().parse(source).root_node
    if root.has_error:
        raise Unread
    return root


def statements(block: Node) -> list[Statement]:
    """The statements of a program, a subshell or a group, in order, comments left out."""
    found: list[Statement] = []
    for child in block.children:
        if child.type == "&":
            found[-1] = Statement(found[-1].node, child.start_byte)
        elif child.is_named and child.type != "comment":
            found.append(Statement(child))
    return found


def operands(node: Node) -> list[tuple[str, Node]]:
    """The parts of `a && b || c` with the operator before each, redirections of inner parts left in place."""
    if node.type == "list":
        left, operator, right = (child for child in node.children if child.type != "comment")
        return [*operands(left), (operator.type, right)]
    return [("", node)]


@dataclass(frozen=True, slots=True)
class Redirection:
    """One redirection: descriptor as told (None is the operator's own), operator, and its target's raw word."""

    descriptor: int | None
    operator: str
    target: Word | None


@dataclass(frozen=True, slots=True)
class Simple:
    """A simple command with all its words and redirections in the order of the text."""

    start: int
    words: tuple[Word, ...]
    redirections: tuple[Redirection, ...]


def simple(node: Node, outer: list[Node], source: bytes) -> Simple:
    """A `command` node and the redirection nodes around it.

    The grammar takes words that follow a redirection for its further targets, and drops a lone `-`: both are put back.
    Raises Unread for here-documents.
    """
    assigned = [child for child in node.children if child.type == "variable_assignment"]
    redirects = [child for child in node.children if "redirect" in child.type] + outer
    found = [_word(child, source) for child in node.children if child not in assigned and child not in redirects]
    spans = sorted((part.start_byte, part.end_byte) for part in [*node.children, *redirects])
    found += [*_later_targets(redirects, source), *_missed(source, spans)]
    return Simple(spans[0][0], tuple(_as_words(found, source)), redirections_of(redirects, source))


def _as_words(found: list[Word], source: bytes) -> Iterator[Word]:
    """The grammar tears some words (`$"x"`) and joins others (`{ }`): cut where the blanks are."""
    pieces = sorted(found, key=lambda word: word.start)
    at = 0
    while at < len(pieces):
        start, end = pieces[at].start, pieces[at].end
        while at + 1 < len(pieces) and pieces[at + 1].start <= end:
            at += 1
            end = max(end, pieces[at].end)
        raw = source[start:end].decode()
        cuts = [(0, len(raw))] if _NESTED.search(raw) else [match.span() for match in _PIECE.finditer(raw)]
        for first, last in cuts:
            offset = start + len(raw[:first].encode())
            yield Word(offset, offset + len(raw[first:last].encode()), raw[first:last])
        at += 1


def redirections_of(nodes: list[Node], source: bytes) -> tuple[Redirection, ...]:
    """Redirection nodes read, those of standard input by a here-string left out."""
    if any(node.type == "heredoc_redirect" for node in nodes):
        raise Unread
    files = [node for node in nodes if node.type == "file_redirect"]
    return tuple(_redirection(node, next(iter(_targets(node, source)), None)) for node in files)


def _targets(node: Node, source: bytes) -> list[Word]:
    return [_word(target, source) for target in node.children_by_field_name("destination")]


def _later_targets(nodes: list[Node], source: bytes) -> list[Word]:
    return [word for node in nodes for word in _targets(node, source)[1:]]


def _word(node: Node, source: bytes) -> Word:
    return Word(node.start_byte, node.end_byte, source[node.start_byte : node.end_byte].decode())


def _redirection(node: Node, target: Word | None) -> Redirection:
    descriptor = node.child_by_field_name("descriptor")
    told = (descriptor.text or b"").decode() if descriptor else ""
    if told and not told.isdigit():
        raise Unread
    operator = next(child.type for child in node.children if not child.is_named)
    return Redirection(int(told) if told else None, operator, target)


def _missed(source: bytes, spans: list[tuple[int, int]]) -> Iterator[Word]:
    at = spans[0][0]
    for start, end in spans:
        if start > at:
            yield from _gap(source, at, start)
        at = max(at, end)


def _gap(source: bytes, start: int, end: int) -> Iterator[Word]:
    text = source[start:end].decode()
    for match in re.finditer(r"(?:\\\n|\s)+|(\S+)", text):
        if match[1] is None:
            continue
        if not _PLAIN.fullmatch(match[1]):
            raise Unread
        before = len(text[: match.start()].encode())
        yield Word(start + before, start + before + len(match[1].encode()), match[1])


def assignments(node: Node, source: bytes) -> list[tuple[str, str, str, int]]:
    """Name, operator (`=` or `+=`), raw value and offset of each assignment that is a child of the node."""
    found = []
    for child in node.children if node.type != "variable_assignment" else [node]:
        if child.type == "variable_assignment":
            text = source[child.start_byte : child.end_byte].decode()
            name, operator, value = re.split(r"(\+?=)", text, maxsplit=1)
            found.append((name, operator, value, child.start_byte))
    return found


def command_name(node: Node, source: bytes) -> str | None:
    """The first word of a simple command, looked up through redirections; None for anything else."""
    if node.type == "redirected_statement":
        body = node.child_by_field_name("body")
        return command_name(body, source) if body else None
    if node.type != "command":
        return None
    name = node.child_by_field_name("name")
    return source[name.start_byte : name.end_byte].decode() if name else None
