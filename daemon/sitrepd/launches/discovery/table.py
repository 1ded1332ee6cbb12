"""One read of /proc: every process with its place in the tree and its words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sitrepd.launches.launchers.base import ProcessIdentity
from sitrepd.launches.processes import Stat, identity_of, read_argv, read_stats

_KTHREADD = 2


@dataclass(frozen=True, slots=True)
class Process:
    """A living process; `argv` holds secrets, and is empty where it may not be read."""

    stat: Stat
    argv: tuple[str, ...] = ()

    @property
    def pid(self) -> int:
        return self.stat.pid

    @property
    def identity(self) -> ProcessIdentity:
        return identity_of(self.stat)


Table = Mapping[int, Process]


def read_table() -> dict[int, Process]:
    """All living processes by pid, those of the kernel left out; about 25 µs each."""
    return {
        pid: Process(stat, tuple(read_argv(pid)))
        for pid, stat in read_stats().items()
        if stat.living and _KTHREADD not in (pid, stat.parent)
    }


def ancestors(table: Table, pid: int) -> Iterator[Process]:
    """From its parent up; a loop, which pids read at different moments can make, ends it."""
    seen = {pid}
    at = table[pid].stat.parent
    while at in table and at not in seen:
        seen.add(at)
        yield table[at]
        at = table[at].stat.parent


def uid_of(pid: int) -> int | None:
    """Who runs a process; the owner of its folder in /proc is root where it has changed its user."""
    try:
        with open(f"/proc/{pid}/status") as file:
            return next((int(line.split()[2]) for line in file if line.startswith("Uid:")), None)
    except OSError:
        return None
