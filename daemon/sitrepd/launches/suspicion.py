"""A start that stands still: told with what to look at, and never ended."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sitrepd.launches.processes import Stat, TreeCounters, read_argv, tree_counters

_ALLOWED: Mapping[str, float] = {
    "starting": 1.5,
    "load_weights": 2.0,
    "compile_kernels": 5.0,
    "autotune": 3.0,
    "capture": 3.0,
    "http_start": 0.5,
    "warmup": 5.0,
}
"""How often the least time a phase may last where no earlier start tells; 1 where its name is absent."""
_LONGER = 3.0
_LATER_S = 60.0
_BUSY = 5.0
_LOOKS = 10
_SLOWEST_LOOK_S = 5.0
_IDLE_CORES, _IDLE_CORES_EACH = 0.05, 0.01
_DISK_BYTES, _READ_BYTES = 64 * 1024, 1 << 20
_MOST_RANKS = 16
_HALTED = ("T", "t")
_WORKER = re.compile(r"(?:sglang::)?scheduler(?:_(?P<sglang>\w+))?|VLLM::(?P<vllm>\w+)")


@dataclass(frozen=True, slots=True)
class Pulse:
    """What moves while a start is alive; None is not known."""

    log_bytes: int
    counters: TreeCounters
    gpu_bytes: int | None = None

    def moved_since(self, before: Pulse) -> bool:
        """Whether anything but processor time has moved; a rank that waits for another may spin."""
        now, then = self.counters, before.counters
        return (
            self.log_bytes != before.log_bytes
            or self.gpu_bytes != before.gpu_bytes
            or now.processes != then.processes
            or _grown(now.disk_read_bytes, then.disk_read_bytes) > _DISK_BYTES
            or _grown(now.disk_write_bytes, then.disk_write_bytes) > _DISK_BYTES
            or _grown(now.read_bytes, then.read_bytes) > _READ_BYTES
        )

    def worked_since(self, before: Pulse, seconds: float) -> bool:
        cores = (self.counters.cpu_s - before.counters.cpu_s) / seconds if seconds > 0 else 0.0
        return cores > _IDLE_CORES + _IDLE_CORES_EACH * self.counters.processes


def _grown(now: int | None, then: int | None) -> int:
    return (now or 0) - (then or 0)


@dataclass(frozen=True, slots=True)
class Standing:
    """For how long (seconds) nothing has moved in the present phase; `busy` where processors still work."""

    phase_s: float
    still_s: float
    busy: bool


class Suspicion:
    """Looks now and then at one start; pure but for what is handed in, so that its clock can be any."""

    def __init__(self, least_s: float, usual_s: Callable[[str], float | None] = lambda phase: None) -> None:
        self.least_s = least_s
        self._usual_s = usual_s
        self._phase = ""
        self._began_s = 0.0
        self._before: tuple[float, Pulse] | None = None
        self._moved_s = self._worked_s = 0.0
        self._looked_s = -1e9

    def is_due(self, now_s: float) -> bool:
        return now_s - self._looked_s >= min(self.least_s / _LOOKS, _SLOWEST_LOOK_S)

    def look(self, now_s: float, phase: str, elapsed_s: float, pulse: Pulse) -> Standing | None:
        """What stands still for too long; None while there is nothing to be said."""
        self._looked_s = now_s
        before, self._before = self._before, (now_s, pulse)
        if before is None or phase != self._phase or pulse.moved_since(before[1]):
            self._moved_s = self._worked_s = now_s
        elif pulse.worked_since(before[1], now_s - before[0]):
            self._worked_s = now_s
        self._phase = phase
        if elapsed_s < self.allowed_s(phase):
            return None
        still, idle = now_s - self._moved_s, now_s - self._worked_s
        if idle >= self.least_s:
            return Standing(elapsed_s, idle, busy=False)
        if still >= _BUSY * self.least_s and elapsed_s >= _LONGER * self.allowed_s(phase):
            return Standing(elapsed_s, still, busy=True)
        return None

    def allowed_s(self, phase: str) -> float:
        """How long the phase may last before it is looked at with suspicion."""
        usual = self._usual_s(phase)
        if usual is not None:
            return max(self.least_s, _LONGER * usual)
        kind = "capture" if phase.startswith("capture") else phase
        return self.least_s * _ALLOWED.get(kind, 1.0)

    def usual_s(self, phase: str) -> float | None:
        return self._usual_s(phase)


def is_slow(elapsed_s: float, usual_s: float) -> bool:
    """Whether a phase takes far longer than it did before, though it may move."""
    return usual_s > 0 and elapsed_s >= max(_LONGER * usual_s, usual_s + _LATER_S)


def slow_words(title: str, usual_s: float) -> str:
    return (
        f"{title} takes over three times as long as in earlier starts ({_time(usual_s)}), though it moves: a cold page "
        "cache, a slower disk, a busy machine. `iostat -x 1` and `free -g` show disk and cache."
    )


def pulse(log_bytes: int, pids: Collection[int], gpu_bytes: int | None) -> Pulse:
    return Pulse(log_bytes, tree_counters(pids), gpu_bytes)


def words(
    title: str,
    progress: str,
    standing: Standing,
    usual_s: float | None,
    ranks: Mapping[str, int],
    now: datetime,
    halted: str = "",
) -> str:
    """One line for a person: what stands, since when, what is usual, and the commands that look at it."""
    told = f"{title} has not moved since {since(now, standing.still_s)}{progress}: "
    if standing.busy:
        told += "its processes are busy, but its log, disks and GPU memory stand still, as when ranks wait for others."
    else:
        told += "its log, processors, disks and GPU memory stand still."
    if usual_s is not None:
        told += f" Earlier starts took {_time(usual_s)} for it."
    return " ".join(part for part in (told, halted, look_with(ranks)) if part)


def since(now: datetime, seconds: float) -> str:
    """The time so long ago, which stays true while the text is kept."""
    return f"{now - timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S} UTC"


def look_with(ranks: Mapping[str, int]) -> str:
    """The commands that show where each rank stands."""
    commands = "; ".join(
        f"py-spy dump --pid {pid}" + (f" ({rank})" if rank else "") for rank, pid in list(ranks.items())[:_MOST_RANKS]
    )
    return f"Look with: {commands}" if commands else ""


def ranks(tree: Mapping[int, Stat], main: int) -> dict[str, int]:
    """The pid of each rank by its label, as the titles of the processes say; else the main process alone."""
    found: dict[str, int] = {}
    for pid in tree:
        match = _WORKER.match(" ".join(read_argv(pid)[:1]))
        if match:
            label = match["sglang"] or match["vllm"] or "scheduler"
            found.setdefault(label, pid)
    return dict(sorted(found.items())) or {"": main}


def halted(tree: Mapping[int, Stat], ranks: Mapping[str, int]) -> str:
    """Which processes a signal or a debugger has stopped, and what lets them go on."""
    labels = {pid: rank for rank, pid in ranks.items()}
    stopped = [pid for pid, stat in sorted(tree.items()) if stat.state in _HALTED]
    if not stopped:
        return ""
    named = ", ".join(f"{labels.get(pid) or tree[pid].name} (pid {pid})" for pid in stopped[:_MOST_RANKS])
    are, it = ("is", "it") if len(stopped) == 1 else ("are", "them")
    return f"{named} {are} stopped (SIGSTOP, or a debugger): kill -CONT {' '.join(map(str, stopped))} lets {it} go on."


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
