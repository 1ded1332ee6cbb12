"""The parts of the session's page: each is fetched anew, alone, when a fact that concerns it has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from sitrepd.dashboard.parts import benchmarks, checkpoint, gpus, launches, things, work
from sitrepd.dashboard.view import View


@dataclass(frozen=True)
class Part:
    """`words` are the kinds of facts whose changes concern it; its template is `parts/<name>.html.j2`."""

    name: str
    title: str
    words: frozenset[str]
    look: Callable[[View], dict[str, Any]]


def _part(name: str, title: str, words: str, look: Callable[[View], dict[str, Any]]) -> Part:
    return Part(name, title, frozenset(words.split()), look)


PARTS = {
    part.name: part
    for part in (
        _part("session", "Session", "session", work.session),
        _part("launches", "Launches", "launch model", launches.look),
        _part("steps", "Next steps", "next_step launch benchmark sweep", work.steps),
        _part("benchmarks", "Comparison", "benchmark session", benchmarks.look),
        _part("findings", "Findings", "finding", work.findings),
        _part("gpus", "GPUs", "host", gpus.look),
        _part("directives", "Directives", "directive", work.directives),
        _part("checkpoint", "Latest checkpoint", "checkpoint delivery", checkpoint.look),
        _part("things", "Models, stack, artifacts", "model stack artifact reference training profile", things.look),
    )
}
_ALL_AT_ONCE = frozenset({"session.imported"})
# What moves a bar only: the stream says it by itself.
_QUIET = frozenset({"launch.progress"})


def concerned(kinds: Iterable[str]) -> list[str]:
    """Names of the parts that these kinds of events concern, in the order of the page."""
    told = set(kinds) - _QUIET
    if told & _ALL_AT_ONCE:
        return list(PARTS)
    words = {kind.partition(".")[0] for kind in told}
    return [part.name for part in PARTS.values() if part.words & words]
