"""Flags of a command line as a list of words: looked up, set, and checked against a program's own help."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

_OPTION = re.compile(r"(?<![\w-])(--[a-zA-Z][\w-]*)")


def value_of(words: Sequence[str], name: str) -> str | None:
    """The last value that the words give the option."""
    found = None
    for at, word in enumerate(words):
        option, equals, value = word.partition("=")
        if _same(option, name):
            found = value if equals else next(iter(words[at + 1 : at + 2]), None)
    return found


def asks_port(words: Sequence[str], port: int) -> bool:
    """Whether the words of a client name that port, by itself or in a URL; other numbers may read the same."""
    return value_of(words, "--port") == str(port) or any(re.search(rf":{port}(?!\d)", word) for word in words)


def has(words: Iterable[str], name: str) -> bool:
    return any(_same(word.partition("=")[0], name) for word in words)


def set_value(words: Sequence[str], name: str, value: str) -> list[str]:
    """The words with that option set once: a client may refuse an option that is given twice."""
    kept: list[str] = []
    at = 0
    while at < len(words):
        option, equals, _ = words[at].partition("=")
        if _same(option, name):
            at += 1 if equals else 2
            continue
        kept.append(words[at])
        at += 1
    return [*kept, name, value]


def with_default(words: Sequence[str], name: str, value: str | None = None) -> list[str]:
    """The words with that option, unless they have it."""
    if has(words, name):
        return list(words)
    return [*words, name] if value is None else [*words, name, value]


def options_in(help_text: str) -> frozenset[str]:
    """All options that a help text speaks of."""
    return frozenset(_OPTION.findall(help_text))


def unknown(words: Iterable[str], known: frozenset[str]) -> list[tuple[str, str | None]]:
    """Options that a program does not have, each with the one that may have been meant; abbreviations count."""
    found = []
    for word in words:
        option = word.partition("=")[0]
        if not option.startswith("--") or option == "--" or option.replace("_", "-") in known or option in known:
            continue
        if any(one.startswith(option) for one in known):
            continue
        near = get_close_matches(option, known, 1, 0.7)
        found.append((option, near[0] if near else None))
    return found


def _same(option: str, name: str) -> bool:
    return option.replace("_", "-") == name
