"""Where secrets stand in a text: by their own shape, and by the name before them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from itertools import chain
from typing import NamedTuple

from sitrepd.redaction.names import (
    Strength,
    is_option,
    is_placeholder,
    is_plural_secret_name,
    is_secret_value,
    looks_random,
    name_strength,
    reference_name,
)
from sitrepd.redaction.shapes import SCHEME, SHAPES


class Span(NamedTuple):
    """A secret at `text[start:end]`, and the name of the variable that is to stand for it."""

    start: int
    end: int
    name: str


_TRIGGERS = {t: [(s.name, s.pattern) for s in SHAPES if t in s.triggers] for shape in SHAPES for t in shape.triggers}
_UNGATED = frozenset(("PRIVATE_KEY", "SLACK_TOKEN", "SENTRY_TOKEN", "GRAFANA_TOKEN"))
_TOKENS = frozenset(t for s in SHAPES if not s.pattern.groupindex and s.name not in _UNGATED for t in s.triggers)
"""Triggers of what is one run of at least `_SHORTEST_TOKEN` letters, digits, `_`, `-`, `.` and `~`."""
_OTHERS = tuple(t for t in _TRIGGERS if t not in _TOKENS)
_SHORTEST_TOKEN = b"a" * 20
_IN_TOKENS = bytes(97 if chr(c).isalnum() or chr(c) in "_-.~" else 32 for c in range(128)) + b" " * 128
# Looked for one after the other; the keywords of the second column only where the word before them is there.
_KEYWORDS = {
    "key": ("key",), "token": ("token",), "secret": ("secret",), "pwd": ("pwd",), "credential": ("credential",),
    "cookie": ("cookie",), "auth": ("auth",), "pat": ("pat",),
    "pass": ("passw", "passphrase", "passcode", "_pass", "-pass", "sshpass"),
}  # fmt: skip
_LONGEST_WORD = 13
_WORD = re.compile(r"[\w.+-]*")
_SCHEME_AHEAD = re.compile(SCHEME + r"\s")
_NAME_TAIL = re.compile(r"[\w-]*")
_SEPARATOR = re.compile(r"\\*[\"']?\]?\s*(?::=|=>|==?|:)[ \t]*")
_OPTION_SEPARATOR = re.compile(r"\\*[\"']?,?\s+(?!--[a-z])")
_NAME_AND_VALUE = re.compile(r"\\*[\"']?,?\s*\\*[\"']?value\\*[\"']?:\s*")  # name: HF_TOKEN, value: …
_IS = re.compile(r"\s+(?:is|ist|lautet):?\s+")
_PROVIDED = re.compile(r"\s+(?:provided|given|used)\s*:?\s+")
_SQL = re.compile(r"\s+(?=[\"'])")  # PASSWORD '…', passphrase "…"
_CALL = re.compile(r"[\"'],\s*(?=[\"'])")
_CALLED = re.compile(r"(?:setdefault|setenv|putenv)\(\s*[\"']$")
_QUOTED = re.compile(
    r"""\\+"(?P<a>.*?)(?:\\+"|\Z)|\\+'(?P<b>.*?)(?:\\+'|\Z)|"(?P<c>(?:[^"\\\n]|\\.)*)|'(?P<d>(?:[^'\\\n]|\\.)*)""",
    re.DOTALL,
)
_BARE = re.compile(r"(?:[^\s,;&|<>()\[\]{}\"'\\]|\$\{[^}]*\}|,(?=[^\s\"'\]})]))+")
_LIST = re.compile(r"[\[(]\s*\\*[\"']([^\])\n]{1,4000}?)\\*[\"']?\s*(?:[\])]|$)", re.MULTILINE)
_PROSE_NAMES = re.compile(r"(?:api|access|auth|secret|private|bearer|security|license)[ ]$")

_SENTENCE_SECRET = 6  # characters, one of them a digit: "the password is hunter2"

ValueFinder = Callable[[str, int], "tuple[int, int, bool] | None"]


def find_secrets(text: str, value_at: ValueFinder | None = None) -> list[Span]:
    """The secrets of a text, from left to right and without overlaps.

    `value_at(text, position)` says where the value that begins there lies, and whether its place leaves no doubt.
    """
    if len(text) <= _LONGEST_WORD and _WORD.fullmatch(text):  # neither a separator nor a token fits
        return []
    lowered = text.lower()
    if len(lowered) != len(text):  # "İ" alone grows when lowered
        lowered = text.replace("İ", "i").lower()
    return _merge([*_named(text, lowered, value_at or text_value), *_shaped(text, lowered)])


def text_value(text: str, position: int, limit: int = sys.maxsize) -> tuple[int, int, bool] | None:
    """Start and end, before `limit`, of the value at `position` of a log line, configuration file, JSON or repr."""
    if several := _LIST.match(text, position, limit):
        return *several.span(1), True
    if quoted := _QUOTED.match(text, position, limit):
        start, end = quoted.span(quoted.lastgroup or 0)
        return start, end, True
    bare = _BARE.match(text, position, limit)
    if bare is None or text[bare.end() : bare.end() + 1] in ("(", "["):  # code: `token=get(`, `key=os.environ[`
        return None
    value = bare[0].rstrip(".")  # of a sentence
    return bare.start(), bare.start() + len(value), False


def _shaped(text: str, lowered: str) -> Iterator[Span]:
    long_runs = _SHORTEST_TOKEN in lowered.encode("ascii", "replace").translate(_IN_TOKENS)
    for trigger in filter(lowered.__contains__, _TRIGGERS if long_runs else _OTHERS):
        for name, pattern in _TRIGGERS[trigger]:
            group = "secret" if "secret" in pattern.groupindex else 0
            done = 0
            for position in _occurrences(lowered, trigger):
                match = pattern.match(text, position) if position >= done else None
                if match and not is_placeholder(match[group]):
                    done = match.end()
                    yield Span(*match.span(group), name)


def _named(text: str, lowered: str, value_at: ValueFinder) -> Iterator[Span]:
    done = 0
    present = (keyword for word, keywords in _KEYWORDS.items() if word in lowered for keyword in keywords)
    for hit in sorted(chain.from_iterable(_occurrences(lowered, keyword) for keyword in present)):
        if hit < done:
            continue
        start, done = _name_bounds(text, hit)
        name = text[start:done]
        span = None
        if name_strength(name) or is_plural_secret_name(name):
            span = _value_of(text, lowered, start, done, value_at)
        elif name.lower() in ("key", "token") and (prose := _PROSE_NAMES.search(lowered, max(0, start - 9), start)):
            span = _value_of(text, lowered, prose.start(), done, value_at)
            span = span if span and looks_random(text[span.start : span.end]) else None
        if span:
            done = span.end
            yield span


def _value_of(text: str, lowered: str, start: int, end: int, value_at: ValueFinder) -> Span | None:
    name = text[start:end]
    separator = _separator(text, name, start, end)
    if separator is None or (value := value_at(text, separator.end())) is None:
        return None
    first, last, told = value
    secret = text[first:last]
    if separator.re in (_IS, _SQL, _PROVIDED) and not (len(secret) >= _SENTENCE_SECRET and re.search(r"\d", secret)):
        return None
    if secret.isupper() and reference_name(secret) == reference_name(name):  # a usage line: `--api-key API_KEY`
        return None
    if _is_scheme(lowered, name, first):
        return None
    if is_plural_secret_name(name):  # only a list of texts: `tokens: 12` counts
        strength = Strength.STRONG if text[separator.end()] in "[(" else Strength.NONE
    else:
        strength = name_strength(name) or Strength.WEAK
    if is_secret_value(secret, strength, told=told):
        return Span(first, last, reference_name(name))
    return None


def _separator(text: str, name: str, start: int, end: int) -> re.Match[str] | None:
    found = _SEPARATOR.match(text, end) or (_OPTION_SEPARATOR.match(text, end) if is_option(name) else None)
    found = found or _NAME_AND_VALUE.match(text, end) or _IS.match(text, end) or _PROVIDED.match(text, end)
    if found is None and name.lower().endswith(("password", "passwort", "passphrase")):
        found = _SQL.match(text, end)
    if found is None and _CALLED.search(text, max(0, start - 24), start):
        found = _CALL.match(text, end)
    return found


def _is_scheme(lowered: str, name: str, first: int) -> bool:
    return name.lower().endswith("authorization") and _SCHEME_AHEAD.match(lowered, first) is not None


def _name_bounds(text: str, position: int) -> tuple[int, int]:
    start = position
    while start and (text[start - 1].isalnum() or text[start - 1] in "_-"):
        start -= 1
    tail = _NAME_TAIL.match(text, position)
    return start, tail.end() if tail else position


def _occurrences(text: str, part: str) -> Iterator[int]:
    position = text.find(part)
    while position >= 0:
        yield position
        position = text.find(part, position + len(part))


def _merge(spans: list[Span]) -> list[Span]:
    """One span for those that overlap, with the name of the first; of two at one place the named one."""
    merged: list[Span] = []
    for span in sorted(spans, key=lambda s: s.start):
        if merged and span.start < merged[-1].end:
            merged[-1] = merged[-1]._replace(end=max(merged[-1].end, span.end))
        else:
            merged.append(span)
    return merged
