"""What ran on the GPUs and what on the CPU of a trace, whatever wrote it: phases by category, kernel and operator."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping

from sitrepd.benchmarks.profiles.busy import Busy, Nested
from sitrepd.benchmarks.profiles.found import Found, Phase, clipped, largest, percent
from sitrepd.benchmarks.profiles.kernels import category

_KERNELS, _OPERATORS, _NAMED = 40, 25, 25


class Lanes:
    """Times in microseconds; what is added may come in any order."""

    def __init__(self) -> None:
        self.gpus: dict[Hashable, Busy] = defaultdict(Busy)
        self.streams: set[Hashable] = set()
        self.cpu = Busy()
        self._categories: dict[tuple[str, Hashable], Busy] = defaultdict(Busy)
        self._kernels: dict[tuple[str, Hashable], Busy] = defaultdict(Busy)
        self._named: dict[tuple[str, str], Busy] = defaultdict(Busy)
        self._threads: dict[Hashable, Nested] = defaultdict(Nested)
        self._names: dict[str, int] = {}
        self._first, self._last = float("inf"), float("-inf")

    def on_gpu(self, name: str, device: Hashable, stream: Hashable, start: float, end: float) -> None:
        self._seen(start, end)
        self.streams.add((device, stream))
        self.gpus[device].add(start, end)
        self._categories[category(name), device].add(start, end)
        self._kernels[name, device].add(start, end)

    def on_cpu(self, name: str, thread: Hashable, start: float, end: float, busy: bool = True) -> None:
        """`busy` is false of what only gives a name to what it contains."""
        self._seen(start, end)
        if busy:
            self.cpu.add(start, end)
        self._threads[thread].add(start, end - start, self._names.setdefault(name, len(self._names)))

    def named(self, where: str, name: str, start: float, end: float) -> None:
        """What the program itself gave a name to."""
        self._seen(start, end)
        self._named[where, name].add(start, end)

    def _seen(self, start: float, end: float) -> None:
        self._first, self._last = min(self._first, start), max(self._last, end)

    @property
    def wall(self) -> float:
        return max(0.0, self._last - self._first)

    def found(self, tool: str) -> Found:
        gpu = sum(busy.union() for busy in self.gpus.values())
        phases = [
            *self._whole(),
            *self._by_category(gpu),
            *self._by_kernel(gpu),
            *self._annotated(),
            *self._operators(),
        ]
        return Found(tool, phases, self._note(gpu))

    def _whole(self) -> list[Phase]:
        whole = [Phase("wall time", "whole", None, self.wall / 1e3, None, 100.0 if self.wall else None)]
        for device, busy in sorted(self.gpus.items(), key=lambda item: str(item[0])):
            name = f"GPU {device}" if len(self.gpus) > 1 else "GPU"
            union = busy.union()
            share = percent(union, self.wall)
            whole.append(Phase(f"{name} busy", "whole", None, union / 1e3, None, share))
            whole.append(Phase(f"{name} idle", "whole", None, (self.wall - union) / 1e3, None, 100 - (share or 0.0)))
        if self.cpu.calls:
            union = self.cpu.union()
            whole.append(Phase("CPU busy", "whole", None, union / 1e3, None, percent(union, self.wall)))
        return whole

    def _by_category(self, gpu: float) -> list[Phase]:
        return largest("GPU by category", _unions("GPU by category", self._categories, gpu), 100, "categories")

    def _by_kernel(self, gpu: float) -> list[Phase]:
        group = "GPU kernels"
        merged: dict[str, list[float]] = {}
        for phase in _unions(group, self._kernels, gpu):
            told = merged.setdefault(clipped(phase.name), [0, 0.0, 0.0])
            told[0] += phase.calls or 0
            told[1] += phase.total_ms or 0.0
            told[2] += (phase.mean_ms or 0.0) * (phase.calls or 0)
        kernels = [
            Phase(name, group, int(calls), total, summed / calls if calls else None, percent(total * 1e3, gpu))
            for name, (calls, total, summed) in merged.items()
        ]
        return largest(group, kernels, _KERNELS, "kernels")

    def _annotated(self) -> list[Phase]:
        found: list[Phase] = []
        for where in dict.fromkeys(where for where, _ in self._named):
            group = f"named on the {where}"
            phases = [
                Phase(name, group, busy.calls, busy.union() / 1e3, busy.summed / busy.calls / 1e3,
                      percent(busy.union(), self.wall))
                for (of, name), busy in self._named.items()
                if of == where
            ]  # fmt: skip
            found += largest(group, phases, _NAMED, "names")
        return found

    def _operators(self) -> list[Phase]:
        own: dict[int, tuple[int, float]] = {}
        for thread in self._threads.values():
            thread.own(own)
        whole = sum(time for _, time in own.values())
        group = "CPU, own time"
        names = list(self._names)
        phases = [
            Phase(clipped(names[at]), group, calls, time / 1e3, time / calls / 1e3, percent(time, whole))
            for at, (calls, time) in own.items()
        ]
        return largest(group, phases, _OPERATORS, "calls")

    def _note(self, gpu: float) -> str | None:
        summed = sum(busy.summed for busy in self.gpus.values())
        if not self.gpus:
            return "Nothing ran on a GPU while this was recorded."
        told = f"{len(self.streams)} {'stream' if len(self.streams) == 1 else 'streams'}"
        if summed > gpu * 1.0005:
            beside = f"{(summed - gpu) / 1e3:.3f} ms of {summed / 1e3:.3f} ms on the GPU"
            told += f"; {beside} ran beside other work, and count once"
        return f"{told}. Shares of categories and kernels are of the time in which the GPU was busy."


def _unions(group: str, of: Mapping[tuple[str, Hashable], Busy], whole: float) -> list[Phase]:
    """By name, over all devices."""
    by_name: dict[str, list[Busy]] = {}
    for (name, _), busy in of.items():
        by_name.setdefault(name, []).append(busy)
    found = []
    for name, each in by_name.items():
        calls, union, summed = (
            sum(values) for values in zip(*((b.calls, b.union(), b.summed) for b in each), strict=True)
        )
        found.append(Phase(name, group, int(calls), union / 1e3, summed / calls / 1e3, percent(union, whole)))
    return found
