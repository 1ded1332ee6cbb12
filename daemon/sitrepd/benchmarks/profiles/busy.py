"""When something ran: the union of its intervals, and the time of nested calls without that of their children."""

from __future__ import annotations

import math
import operator
from array import array

_FEW = 4096


class Busy:
    """Intervals in any order and of any overlap; neighbours are merged as they come, others now and then.

    `calls` and `summed` count each by itself.
    """

    __slots__ = ("_ends", "_most", "_sorted", "_starts", "calls", "summed")

    def __init__(self) -> None:
        self._starts, self._ends = array("d"), array("d")
        self._sorted = True
        self._most = _FEW
        self.calls = 0
        self.summed = 0.0

    def add(self, start: float, end: float) -> None:
        self.calls += 1
        self.summed += end - start
        starts, ends = self._starts, self._ends
        if starts:
            if starts[-1] <= start <= ends[-1]:
                ends[-1] = max(ends[-1], end)
                return
            self._sorted = self._sorted and start > ends[-1]
        starts.append(start)
        ends.append(end)
        if not self._sorted and len(starts) > self._most:
            self._merge()
            self._most = max(_FEW, 2 * len(self._starts))

    def union(self) -> float:
        """How long at least one of them ran."""
        self._merge()
        # One by one, since sums of times since 1970 would be too large to be exact.
        return math.fsum(map(operator.sub, self._ends, self._starts))

    def span(self) -> tuple[float, float] | None:
        self._merge()
        return (self._starts[0], self._ends[-1]) if self._starts else None

    def _merge(self) -> None:
        if self._sorted:
            return
        starts, ends = array("d"), array("d")
        for start, end in sorted(zip(self._starts, self._ends, strict=True)):
            if starts and start <= ends[-1]:
                ends[-1] = max(ends[-1], end)
            else:
                starts.append(start)
                ends.append(end)
        self._starts, self._ends, self._sorted = starts, ends, True


class Nested:
    """Calls of one thread that contain each other: a name's own time is what none of its children took."""

    __slots__ = ("_lengths", "_names", "_starts")

    def __init__(self) -> None:
        self._starts, self._lengths, self._names = array("d"), array("d"), array("l")

    def add(self, start: float, length: float, name: int) -> None:
        self._starts.append(start)
        self._lengths.append(length)
        self._names.append(name)

    def own(self, found: dict[int, tuple[int, float]]) -> None:
        """Adds (calls, own time) by name."""
        starts, lengths, names = self._starts, self._lengths, self._names
        # The longer of two that begin together contains the other.
        order = sorted(range(len(starts)), key=lengths.__getitem__, reverse=True)
        order.sort(key=starts.__getitem__)
        stack: list[tuple[float, int]] = []
        for at in order:
            start, end, name = starts[at], starts[at] + lengths[at], names[at]
            while stack and start >= stack[-1][0]:
                stack.pop()
            if stack:
                until, parent = stack[-1]
                calls, own = found[parent]
                found[parent] = (calls, own - (min(end, until) - start))
            calls, own = found.get(name, (0, 0.0))
            found[name] = (calls + 1, own + end - start)
            stack.append((end, name))
