"""What a benchmark is, and how its figures are told."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Figure:
    """A measured value, with the peer or limit that was measured in the same run; `ratio` is value over peer."""

    name: str
    value: float
    unit: str
    peer: str | None = None
    ratio: float | None = None
    limit: float | None = None
    note: str | None = None

    def line(self) -> str:
        return json.dumps({name: value for name, value in asdict(self).items() if value is not None})

    def __str__(self) -> str:
        beside = f" ({self.ratio:.2f} × {self.peer})" if self.ratio is not None else ""
        limit = f", limit {self.limit:g}" if self.limit is not None else ""
        return f"{self.name:28} {self.value:10.2f} {self.unit}{beside}{limit}{'; ' + self.note if self.note else ''}"


Benchmark = Callable[[], Iterator[Figure]]
_KNOWN: dict[str, Benchmark] = {}


def benchmark(*names: str) -> Callable[[Benchmark], Benchmark]:
    """Registers a function that measures the figures of these names."""

    def register(function: Benchmark) -> Benchmark:
        _KNOWN.update(dict.fromkeys(names, function))
        return function

    return register


def known() -> dict[str, Benchmark]:
    return dict(_KNOWN)


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
