"""Where the descriptors of a command go, redirection by redirection."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from sitrepd.launches.shell.tree import Redirection
from sitrepd.launches.shell.words import ShellState, expand_word


@dataclass(frozen=True, slots=True)
class Target:
    """Where a descriptor goes: `path` is absolute, None when it cannot be known without running the command."""

    raw: str
    path: str | None
    append: bool
    offset: int


Streams = dict[int, Target | None]
"""By descriptor; None (and a missing 1 or 2) is what the command was given."""


def redirect(streams: Streams, redirections: Iterable[Redirection], state: ShellState) -> Streams:
    """The streams after the redirections, applied in their order."""
    streams = dict(streams)
    for one in redirections:
        raw = one.target.raw if one.target else ""
        if one.operator in (">&", "<&", ">&-", "<&-"):
            _duplicate(streams, one, raw, state)
        elif one.operator in ("&>", "&>>"):
            streams[1] = streams[2] = _target(one, state)
        elif one.operator[0] == "<":
            streams[one.descriptor or 0] = _target(one, state)
        else:
            streams[1 if one.descriptor is None else one.descriptor] = _target(one, state)
    return streams


def _duplicate(streams: Streams, one: Redirection, raw: str, state: ShellState) -> None:
    own = one.descriptor if one.descriptor is not None else int(one.operator[0] == ">")
    number = raw.removesuffix("-")
    if not number:
        streams[own] = Target("-", os.devnull, False, one.target.start if one.target else 0)
    elif number.isdigit():
        streams[own] = streams.get(int(number))
    elif one.operator == ">&" and one.descriptor is None:
        streams[1] = streams[2] = _target(one, state)
    else:
        streams[own] = Target(raw, None, False, one.target.start if one.target else 0)


def _target(one: Redirection, state: ShellState) -> Target | None:
    if one.target is None:
        return None
    known = expand_word(one.target.raw, state)
    path = os.path.join(state.cwd, known[0]) if known and len(known) == 1 and state.cwd is not None else None
    if known and os.path.isabs(known[0]):
        path = known[0]
    return Target(one.target.raw, path and os.path.normpath(path), ">>" in one.operator, one.target.start)
