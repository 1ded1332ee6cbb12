"""Next steps that name a rejected option: by its id, by its words, or by a setting that it rejects."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from sitrepd.sections import Section

_OVER = ("refuted", "superseded")
_OPEN = ("todo", "doing")
_TOKEN = re.compile(r"[^\s,;:!?()\[\]{}<>`'\"“”„‘’]+")
_ASSIGNED = re.compile(r"[a-z_][\w.]*=.+")
_FLAG = re.compile(r"--?[a-z][\w-]*")
_VALUE = re.compile(r".*[\d_/].*|true|false|on|off|auto|none")
_ID = re.compile(r"\b(F[1-9]\d{0,17})\b")
# What people say before the thing that they reject, and before one that they do not mean to do.
_LEADING = frozenset({
    "a", "an", "the", "set", "setting", "use", "using", "enable", "enabling", "try", "trying", "run", "running", "with",
    "switch", "switching", "to",
})  # fmt: skip
_NOT = frozenset({"not", "no", "without", "never", "instead", "avoid", "unset", "remove", "drop", "than", "don't"})
_BEFORE = 3


def mark(sections: Sequence[Section]) -> None:
    """Each open step says as `rejected` what it names, and is no longer told as what the wait can be used for."""
    by_name = {section.name: section for section in sections}
    decisions, steps = by_name.get("decisions"), by_name.get("next_steps")
    if decisions is None or steps is None:
        return
    current = [one for one in decisions.items if one["kind"] == "rejected" and one["status"] not in _OVER]
    options = {one["id"]: tuple(_phrases(one["title"])) for one in current}
    found = {}
    for step in steps.items if options else ():
        named = _named(step, options) if step["state"] in _OPEN else []
        if named:
            step["rejected"] = found[step["id"]] = named
    for item in by_name["now"].items if found and "now" in by_name else ():
        if item["kind"] == "meanwhile":
            item["steps"] = [one for one in item["steps"] if one["id"] not in found]
            item["ids"] = [one["id"] for one in item["steps"]]


def _named(step: Mapping[str, Any], options: Mapping[str, Sequence[str]]) -> list[str]:
    cited = {*_ID.findall(step["text"]), *step.get("after", ())}
    tokens = _tokens(step["text"])
    text = f" {' '.join(tokens)} "
    return [one for one, phrases in options.items() if one in cited or any(_means(text, each) for each in phrases)]


def _means(text: str, phrase: str) -> bool:
    """Whether the words stand in the text, other than after a word such as “without”."""
    before, found, _ = text.partition(f" {phrase} ")
    return bool(found) and not _NOT.intersection(before.split()[-_BEFORE:])


def _phrases(title: str) -> Iterator[str]:
    """The whole title where it says enough to be known again, and each setting with its value."""
    tokens = _tokens(title)
    while tokens and tokens[0] in _LEADING:
        tokens = tokens[1:]
    if len(tokens) > 1 or (tokens and (_FLAG.fullmatch(tokens[0]) or _ASSIGNED.fullmatch(tokens[0]))):
        yield " ".join(tokens)
    for one, after in pairwise([*tokens, ""]):
        if _FLAG.fullmatch(one) and _VALUE.fullmatch(after):
            yield f"{one} {after}"
        elif _ASSIGNED.fullmatch(one):
            yield one


def _tokens(text: str) -> list[str]:
    """Words in lower case; `--flag=value` is two of them, as `--flag value` is."""
    words = [one.rstrip(".").casefold() for one in _TOKEN.findall(text)]
    return [part for word in words for part in (word.split("=", 1) if word.startswith("-") else [word]) if part]
