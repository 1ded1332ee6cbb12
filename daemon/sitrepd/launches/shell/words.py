"""What a shell word becomes, as far as that can be known without running anything."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

_NAME = re.compile(r"[A-Za-z_]\w*")
_BRACED = re.compile(r"\{([A-Za-z_]\w*)(?:(:?[-+=?])([^{}$`\"'\\]*))?\}")
_ASSIGNED = re.compile(r"[A-Za-z_]\w*\+?=")
_BRACES = re.compile(r"\{[^{}\s]*(?:,|\.\.)[^{}\s]*\}")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b", "E": "\x1b"}
_ANSI = re.compile(r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|c.|.)", re.DOTALL)

Kind = Literal["literal", "quoted", "expanded"]
Segment = tuple[str, Kind]


class Unknowable(Exception):
    """The word depends on something that only running it would tell."""


def _keep_none(_name: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class ShellState:
    """What is known of a shell at one place of the text; `sure` is false once anything may have been changed.

    `keep` names variables whose values must not appear in words (secrets): these count as unknown.
    """

    variables: Mapping[str, str | None]
    cwd: str | None
    sure: bool = True
    exported: frozenset[str] = frozenset()
    keep: Callable[[str], bool] = field(default=_keep_none, repr=False)

    def value(self, name: str) -> str | None:
        """The value of a variable, None when it is not set; raises Unknowable."""
        if self.keep(name) or (name not in self.variables and not self.sure):
            raise Unknowable(name)
        if name not in self.variables:
            return None
        value = self.variables[name]
        if value is None:
            raise Unknowable(name)
        return value

    def assign(self, name: str, value: str | None) -> ShellState:
        return replace(self, variables={**self.variables, name: value})

    def unsure(self) -> ShellState:
        """After something that may change any variable; the home folder is taken to stay."""
        kept = {name: value for name, value in self.variables.items() if name == "HOME"}
        return replace(self, variables=kept, sure=False)


def expand_word(raw: str, state: ShellState) -> list[str] | None:
    """The words that one told word becomes (none, one or several), or None when that cannot be known."""
    if _has_braces(raw):
        return None
    try:
        segments = _segments(raw, state)
        return [text for pieces in _split(segments) for text in _globbed(pieces, state.cwd)]
    except Unknowable:
        return None


def expand_value(raw: str, state: ShellState) -> str | None:
    """The value that an assignment gives: neither split nor globbed; None when it cannot be known."""
    if raw.startswith("("):
        return None
    try:
        return "".join(text for text, _ in _segments(raw, state, assigned=True))
    except Unknowable:
        return None


def _has_braces(raw: str) -> bool:
    """Brace expansion outside quotes (`{a,b}`, `{1..3}`), roughly: quoted text is taken out first."""
    return bool(_BRACES.search(re.sub(r"\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"|\$\{[^}]*\}", "q", raw, flags=re.DOTALL)))


def _segments(raw: str, state: ShellState, *, assigned: bool = False) -> list[Segment]:
    found = _ASSIGNED.match(raw)
    head, at = (raw[: found.end()], found.end()) if found and not assigned else ("", 0)
    segments: list[Segment] = [(head, "literal")] if head else []
    tilde = True
    while at < len(raw):
        if tilde and raw[at] == "~":
            segment, at = _tilde(raw, at, state, assigned or bool(head))
        else:
            segment, at = _next(raw, at, state)
        segments += segment
        tilde = (assigned or bool(head)) and raw[at - 1] == ":"
    return segments


def _tilde(raw: str, at: int, state: ShellState, assigned: bool) -> tuple[list[Segment], int]:
    ends = "/:" if assigned else "/"
    end = at + 1
    while end < len(raw) and raw[end] not in ends:
        end += 1
    name = raw[at + 1 : end]
    if name and not re.fullmatch(r"[\w.-]+", name):
        return [("~", "literal")], at + 1
    home = state.value("HOME") if not name else None
    whole = home if home is not None else os.path.expanduser(f"~{name}")
    return [(whole, "quoted")], end


def _next(raw: str, at: int, state: ShellState) -> tuple[list[Segment], int]:
    char = raw[at]
    if char == "\\":
        after = raw[at + 1 : at + 2]
        return ([] if after == "\n" else [(after, "quoted")]), at + 2
    if char == "'":
        end = raw.index("'", at + 1)
        return [(raw[at + 1 : end], "quoted")], end + 1
    if char == '"':
        return _double_quoted(raw, at + 1, state)
    if char == "`" or raw.startswith(("<(", ">("), at):
        raise Unknowable(raw)
    if raw.startswith("$'", at):
        return _ansi_quoted(raw, at + 2)
    if raw.startswith('$"', at):
        return _double_quoted(raw, at + 2, state)
    if char == "$":
        return _expansion(raw, at, state, "expanded")
    end = at + 1
    while end < len(raw) and raw[end] not in "\\'\"`$<>:":
        end += 1
    return [(raw[at:end], "literal")], end


def _double_quoted(raw: str, at: int, state: ShellState) -> tuple[list[Segment], int]:
    segments: list[Segment] = [("", "quoted")]
    while (char := raw[at]) != '"':
        if char == "\\" and raw[at + 1] in '$`"\\\n':
            segments.append((raw[at + 1].replace("\n", ""), "quoted"))
            at += 2
        elif char == "`":
            raise Unknowable(raw)
        elif char == "$":
            segment, at = _expansion(raw, at, state, "quoted")
            segments += segment
        else:
            segments.append((char, "quoted"))
            at += 1
    return segments, at + 1


def _expansion(raw: str, at: int, state: ShellState, kind: Kind) -> tuple[list[Segment], int]:
    if name := _NAME.match(raw, at + 1):
        return [(state.value(name[0]) or "", kind)], name.end()
    if braced := _BRACED.match(raw, at + 1):
        return [(_default(braced, state), kind)], braced.end()
    if raw[at + 1 : at + 2] in ("", " ", "\t", "\n", '"', "/", "=", ",", ".", ":", "%", "\\", "'"):
        return [("$", "quoted")], at + 1
    raise Unknowable(raw)


def _default(braced: re.Match[str], state: ShellState) -> str:
    name, operator, word = braced.groups()
    value = state.value(name)
    if operator is None:
        return value or ""
    unset = value is None or (operator[0] == ":" and value == "")
    if operator[-1] == "+":
        return "" if unset else _plain(word)
    if not unset:
        return value or ""
    if operator[-1] == "-":
        return _plain(word)
    raise Unknowable(name)


def _plain(word: str) -> str:
    if word.startswith("~"):
        raise Unknowable(word)
    return word


def _ansi_quoted(raw: str, at: int) -> tuple[list[Segment], int]:
    end = at
    while raw[end] != "'":
        end += 2 if raw[end] == "\\" else 1
    return [(_ANSI.sub(_unescape, raw[at:end]), "quoted")], end + 1


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] in "xuU" and len(code) > 1:
        return chr(int(code[1:], 16))
    if code[0] in "01234567":
        return chr(int(code, 8) & 0xFF)
    if code[0] == "c" and len(code) == 2:
        return chr(ord(code[1].upper()) & 0x1F)
    return _ESCAPES.get(code, code if code in "\\'\"?" else f"\\{code}")


def _split(segments: list[Segment]) -> list[list[Segment]]:
    """Fields: expanded text is cut at blanks, quotes hold together, and nothing at all is no word."""
    fields: list[list[Segment]] = [[]]
    for text, kind in segments:
        if kind != "expanded":
            fields[-1].append((text, kind))
            continue
        parts = re.split(r"([ \t\n]+)", text)
        for number, part in enumerate(parts):
            if number % 2:
                fields.append([])
            elif part:
                fields[-1].append((part, "expanded"))
    return [pieces for pieces in fields if pieces]


def _globbed(pieces: list[Segment], cwd: str | None) -> list[str]:
    text = "".join(part for part, _ in pieces)
    if not any(set(part) & set("*?[") for part, kind in pieces if kind != "quoted"):
        return [text]
    pattern = "".join(glob.escape(part) if kind == "quoted" else part for part, kind in pieces)
    if cwd is None or "[^" in pattern or "**" in pattern:
        raise Unknowable(text)
    return sorted(glob.glob(pattern, root_dir=cwd)) or [text]
