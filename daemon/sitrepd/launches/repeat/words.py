"""Which words of a command are to be replaced, removed or added, for flags that are set and unset."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sitrepd.errors import InvalidFact

_NUMBER = re.compile(r"-\.?\d[\d.eE+-]*")
_NAME = re.compile(r"-{0,2}[A-Za-z][\w.-]*")
# Names that argparse takes for the same option.
_SAME = (
    ("tp", "tp-size", "tensor-parallel-size"),
    ("dp", "dp-size", "data-parallel-size"),
    ("pp", "pp-size", "pipeline-parallel-size"),
    ("ep", "ep-size", "expert-parallel-size"),
    ("model", "model-path"),
    ("speculative-algorithm", "speculative-algo"),
    ("speculative-draft-model-path", "speculative-draft-model"),
)


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be different: flags by name with their values (none: the bare flag), variables, and the log.

    Flags to `unset` must be there, those to `drop` may be.
    """

    set: Mapping[str, Sequence[str]] = field(default_factory=dict)
    unset: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    log_path: str | None = None
    drop: Sequence[str] = ()

    @property
    def of_flags(self) -> bool:
        return bool(self.set or self.unset or self.drop)


@dataclass(frozen=True, slots=True)
class Known:
    """A word of the command: `text` as the program sees it, None where that is more than one word or not known."""

    text: str | None
    raw: str


@dataclass(frozen=True, slots=True)
class Op:
    """The words `first` to `last` (exclusive) become `new`; where the two are equal, `new` is put in before `first`."""

    first: int
    last: int
    new: tuple[str, ...] = ()


def operations(words: Sequence[Known], change: Change) -> list[Op]:
    """What to do with the words, in no order; raises InvalidFact for a flag to unset that is not there."""
    for name in (*change.set, *change.unset):
        _check(name)
    found = [op for name in change.unset for op in _without(words, name)]
    found += [Op(place, _end(words, place)) for name in change.drop for place in _places(words, name)]
    found += [op for name, values in change.set.items() for op in _with(words, name, values)]
    return found


def _check(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidFact(f"{name!r} is no name of a flag. Variables are set with --env NAME=VALUE (`env` over HTTP).")


def apply(words: Sequence[str], ops: Sequence[Op]) -> list[str]:
    """The words after the operations."""
    result = list(words)
    for op in sorted(ops, key=lambda op: (op.first, op.last), reverse=True):
        result[op.first : op.last] = op.new
    return result


def plain_name(flag: str) -> str:
    """`tp-size` of `--tp_size` and of `tp-size`."""
    return flag.lstrip("-").replace("_", "-")


def _without(words: Sequence[Known], name: str) -> list[Op]:
    places = _places(words, name)
    if not places:
        there = ", ".join(sorted({one for word in words if (one := _flag(word))}))
        raise InvalidFact(f"There is no --{plain_name(name)} to leave out. The command has {there or 'no flags'}.")
    return [Op(place, _end(words, place)) for place in places]


def _with(words: Sequence[Known], name: str, values: Sequence[str]) -> list[Op]:
    places = _places(words, name)
    if not places:
        return [Op(len(words), len(words), (f"--{plain_name(name)}", *values))]
    place = places[-1]
    told, equals, _ = (words[place].text or "").partition("=")
    if equals and len(values) == 1:
        return [Op(place, place + 1, (f"{told}={values[0]}",))]
    if equals:
        return [Op(place, place + 1, (told, *values))]
    end = _end(words, place)
    return [Op(place + 1, end, tuple(values))] if end > place + 1 or values else []


def _places(words: Sequence[Known], name: str) -> list[int]:
    wanted = plain_name(name)
    names = next((group for group in _SAME if wanted in group), (wanted,))
    return [place for place, word in enumerate(words) if (flag := _flag(word)) and plain_name(flag) in names]


def _flag(word: Known) -> str | None:
    """The flag that a word names, its value left out."""
    text = word.text or ""
    if len(text) < 2 or text[0] != "-" or text == "--" or _NUMBER.fullmatch(text):
        return None
    return text.partition("=")[0]


def _end(words: Sequence[Known], place: int) -> int:
    """The place behind the values of a flag; a word that may be several is a value only directly behind it."""
    at = place + 1
    if "=" in (words[place].text or ""):
        return at
    while at < len(words) and _flag(words[at]) is None and (words[at].text is not None or at == place + 1):
        at += 1
    return at
