"""What a reader makes of a file: phases in groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sitrepd.errors import SitrepError

_LONGEST = 200


class ProfileError(SitrepError):
    """A file that no profile can be made of; `detail` says what would be right."""

    status = 422
    title = "No profile"


@dataclass(frozen=True)
class Phase:
    """`share` is in per cent of what its group is a part of; parts may overlap, so that they add up to more."""

    name: str
    group: str | None = None
    calls: int | None = None
    total_ms: float | None = None
    mean_ms: float | None = None
    share: float | None = None

    def told(self) -> dict[str, Any]:
        """As the API takes it, to the nanosecond."""
        fields = asdict(self)
        return {
            name: round(value, 6) if isinstance(value, float) else value
            for name, value in fields.items()
            if value is not None
        }


@dataclass(frozen=True)
class Found:
    tool: str
    phases: Sequence[Phase]
    note: str | None = None


def largest(group: str, phases: Iterable[Phase], most: int, others: str) -> list[Phase]:
    """The phases that took most, and the rest as one."""
    ordered = sorted(phases, key=lambda phase: -(phase.total_ms or 0.0))
    kept, rest = ordered[:most], ordered[most:]
    if not rest:
        return kept
    total = sum(phase.total_ms or 0.0 for phase in rest)
    calls = sum(phase.calls or 0 for phase in rest)
    share = sum(phase.share or 0.0 for phase in rest)
    return [*kept, Phase(f"{len(rest)} other {others}", group, calls, total, total / calls if calls else None, share)]


def percent(part: float, whole: float) -> float | None:
    return 100 * part / whole if whole > 0 else None


def clipped(name: str) -> str:
    """A kernel's name without `void` and its parameters, which say nothing that its template arguments do not."""
    name = " ".join(name.split()).removeprefix("void ")
    if name.endswith(")") and (at := _parameters(name)) > 0:
        name = name[:at]
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def _parameters(name: str) -> int:
    """Where the last pair of parentheses opens that is in no template argument."""
    depth = 0
    for at in range(len(name) - 1, -1, -1):
        if name[at] == ")":
            depth += 1
        elif name[at] == "(":
            depth -= 1
            if depth == 0:
                return 0 if name[at:].startswith("(anonymous") else at
    return 0


def shares(phases: Sequence[Mapping[str, Any]]) -> list[float | None]:
    """In per cent: as told, else of the sum of the group's totals."""
    sums: dict[Any, float] = {}
    for phase in phases:
        sums[phase.get("group")] = sums.get(phase.get("group"), 0.0) + (total_ms(phase) or 0.0)
    return [
        float(phase["share"])
        if phase.get("share") is not None
        else None
        if (total := total_ms(phase)) is None
        else percent(total, sums[phase.get("group")])
        for phase in phases
    ]


def total_ms(phase: Mapping[str, Any]) -> float | None:
    if phase.get("total_ms") is not None:
        return float(phase["total_ms"])
    if phase.get("mean_ms") is not None and phase.get("calls") is not None:
        return float(phase["mean_ms"]) * float(phase["calls"])
    return None


def mean_ms(phase: Mapping[str, Any]) -> float | None:
    if phase.get("mean_ms") is not None:
        return float(phase["mean_ms"])
    if phase.get("total_ms") is not None and phase.get("calls"):
        return float(phase["total_ms"]) / float(phase["calls"])
    return None
