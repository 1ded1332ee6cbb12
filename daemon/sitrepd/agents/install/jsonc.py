"""JSON with comments, changed in place: what is not ours keeps its order, its comments and its every byte."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sitrepd.errors import InvalidFact

Path = Sequence[str | int]
_BLANK = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
# What is said behind a member is said of it.
_REMARK = re.compile(r"(?:[ \t]*(?://[^\r\n]*|/\*[^\r\n]*?\*/))*")
_SPACE = re.compile(r"\s*")
_SCALAR = re.compile(r'"(?:[^"\\\n]|\\.)*"|-?\d[\d.eE+-]*|true|false|null')


@dataclass
class Node:
    """A value by its place in the text; `parts` are the members of an object (with keys) or the items of a list."""

    kind: str
    start: int
    end: int
    value: Any = None
    parts: list[Part] = field(default_factory=list)


@dataclass
class Part:
    """A member or an item: where it begins, its value, and where the comma after it ends, if there is one."""

    start: int
    node: Node
    key: str | None = None
    comma: int | None = None


class Jsonc:
    """A document; each change is made in `text`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._parse()

    @property
    def data(self) -> Any:
        """The document without its comments."""
        return _plain(self.root)

    def get(self, path: Path) -> Any:
        """The value there, or None."""
        node = self._find(path)
        return None if node is None else _plain(node)

    def set(self, path: Path, value: Any) -> None:
        """Put a value there; objects on the way are made."""
        for length in range(len(path)):
            node = self._find(path[:length])
            if node is None:
                raise InvalidFact(f"{'.'.join(map(str, path[:length]))} is missing.")
            if node.kind != "object":
                where = ".".join(map(str, path[:length])) or "the document"
                raise InvalidFact(f"{where} is a {node.kind} and not an object, so {path[length]} cannot be put there.")
            part = _member(node, path[length])
            rest = path[length + 1 :]
            if part is None:
                self._insert(node, _nested(rest, value), str(path[length]))
                return
            if not rest:
                self._splice(part.node.start, part.node.end, self._written(value, self._indent_at(part.start)))
                return

    def append(self, path: Path, value: Any) -> None:
        """Add an item to the list there, which is made where it is missing."""
        node = self._find(path)
        if node is None:
            self.set(path, [value])
        elif node.kind != "list":
            raise InvalidFact(f"{'.'.join(map(str, path))} is a {node.kind} and not a list.")
        else:
            self._insert(node, value, None)

    def replace(self, path: Path, value: Any) -> None:
        """Another value in the place of one that is there."""
        part = self._part(path)
        self._splice(part.node.start, part.node.end, self._written(value, self._indent_at(part.start)))

    def remove(self, path: Path) -> None:
        """Take a member or an item out, and the comma that it needed."""
        owner = self._find(path[:-1])
        part = self._part(path)
        assert owner is not None
        at = owner.parts.index(part)
        if len(owner.parts) == 1:
            start, end = owner.start + 1, part.comma or part.node.end
            if not self.text[end : owner.end - 1].strip():
                end = owner.end - 1
            self._splice(start, end, "")
        elif at + 1 < len(owner.parts):
            self._splice(part.start, self._end(_SPACE, part.comma or part.node.end), "")
        else:
            comma = owner.parts[at - 1].comma or part.start
            self._splice(self._end(_REMARK, comma), part.comma or part.node.end, "")
            if part.comma is None:
                self._splice(comma - 1, comma, "")

    # --- places --------------------------------------------------------------------------------------------------

    def _find(self, path: Path) -> Node | None:
        node = self.root
        for step in path:
            part = _member(node, step)
            if part is None:
                return None
            node = part.node
        return node

    def _part(self, path: Path) -> Part:
        owner = self._find(path[:-1])
        part = _member(owner, path[-1]) if owner is not None else None
        if part is None:
            raise InvalidFact(f"{'.'.join(map(str, path))} is missing.")
        return part

    # --- changes -------------------------------------------------------------------------------------------------

    def _insert(self, owner: Node, value: Any, key: str | None) -> None:
        name = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
        if not owner.parts:
            outer = self._indent_at(owner.start)
            inner = outer + self._unit
            body = f"{self._newline}{inner}{name}{self._written(value, inner)}{self._newline}{outer}"
            kept = self.text[owner.start + 1 : owner.end - 1].rstrip()
            self._splice(owner.start + 1, owner.end - 1, kept + body)
            return
        last = owner.parts[-1]
        if self._newline not in self.text[owner.start : last.start]:
            place, told = last.comma or last.node.end, f"{name}{json.dumps(value, ensure_ascii=False)}"
            self._splice(place, place, f" {told}" if last.comma else f", {told}")
            return
        indent = self._indent_at(last.start)
        told = f"{self._newline}{indent}{name}{self._written(value, indent)}"
        if last.comma is not None:
            place = self._end(_REMARK, last.comma)
            self._splice(place, place, f"{told},")
        else:
            place = self._end(_REMARK, last.node.end)
            self._splice(last.node.end, place, f",{self.text[last.node.end : place]}{told}")

    def _written(self, value: Any, indent: str) -> str:
        text = json.dumps(value, ensure_ascii=False, indent=self._unit)
        return text.replace("\n", self._newline + indent)

    def _indent_at(self, place: int) -> str:
        line = self.text[self.text.rfind("\n", 0, place) + 1 : place]
        return line[: len(line) - len(line.lstrip())]

    @property
    def _newline(self) -> str:
        return "\r\n" if "\r\n" in self.text else "\n"

    @property
    def _unit(self) -> str:
        first = next((part for part in self.root.parts), None)
        return (self._indent_at(first.start) if first else "") or "  "

    def _splice(self, start: int, end: int, text: str) -> None:
        self.text = self.text[:start] + text + self.text[end:]
        self._parse()

    # --- reading -------------------------------------------------------------------------------------------------

    def _parse(self) -> None:
        at = self._skip(1 if self.text.startswith("\ufeff") else 0)
        if at == len(self.text):
            raise self._error(at, "there is nothing in it")
        self.root = self._value(at)
        if self._skip(self.root.end) != len(self.text):
            raise self._error(self.root.end, "more follows where it should end")

    def _value(self, at: int) -> Node:
        first = self.text[at : at + 1]
        if first == "{":
            return self._many(at, "object", "}")
        if first == "[":
            return self._many(at, "list", "]")
        found = _SCALAR.match(self.text, at)
        if found is None:
            raise self._error(at, "a value is wanted")
        try:
            return Node("value", at, found.end(), json.loads(found[0], strict=False))
        except ValueError as error:
            raise self._error(at, str(error)) from error

    def _many(self, at: int, kind: str, end: str) -> Node:
        node = Node(kind, at, at)
        at = self._skip(at + 1)
        while self.text[at : at + 1] != end:
            start, key = at, None
            if kind == "object":
                name = self._value(at)
                if not isinstance(name.value, str):
                    raise self._error(at, "a name in quotes is wanted")
                key = name.value
                at = self._skip(name.end)
                if self.text[at : at + 1] != ":":
                    raise self._error(at, "a colon is wanted")
                at = self._skip(at + 1)
            part = Part(start, self._value(at), key)
            node.parts.append(part)
            at = self._skip(part.node.end)
            if self.text[at : at + 1] == ",":
                part.comma = at + 1
                at = self._skip(at + 1)
            elif self.text[at : at + 1] != end:
                raise self._error(at, f"a comma or {end} is wanted")
        node.end = at + 1
        return node

    def _skip(self, at: int) -> int:
        found = _BLANK.match(self.text, at)
        return found.end() if found else at

    def _end(self, blank: re.Pattern[str], at: int) -> int:
        found = blank.match(self.text, at)
        return found.end() if found else at

    def _error(self, at: int, why: str) -> InvalidFact:
        line = self.text.count("\n", 0, at) + 1
        return InvalidFact(f"line {line}, column {at - self.text.rfind(chr(10), 0, at)}: {why}")


def _member(node: Node, step: str | int) -> Part | None:
    if isinstance(step, int):
        return node.parts[step] if node.kind == "list" and -len(node.parts) <= step < len(node.parts) else None
    # Of names that stand there twice, the last one counts.
    return next((part for part in reversed(node.parts) if node.kind == "object" and part.key == step), None)


def _plain(node: Node) -> Any:
    if node.kind == "object":
        return {part.key: _plain(part.node) for part in node.parts}
    return [_plain(part.node) for part in node.parts] if node.kind == "list" else node.value


def _nested(path: Path, value: Any) -> Any:
    for step in reversed(path):
        value = {str(step): value}
    return value


def items(value: Any) -> Iterator[tuple[int, Any]]:
    """The items of a list by their places, last first, so that they can be removed one after the other."""
    return reversed(list(enumerate(value))) if isinstance(value, list) else iter(())
