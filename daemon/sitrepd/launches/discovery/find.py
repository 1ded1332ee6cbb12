"""Servers, their ranks, ranks without a server, and benchmarks, among the processes of one read of /proc."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from sitrepd.launches.discovery.table import Process, Table, ancestors
from sitrepd.launches.discovery.words import (
    Kind,
    benchmark_name,
    is_of_interest,
    is_python,
    is_spawned,
    rank_kind,
    rank_title,
    server_kind,
)

_EMBEDDING = ("ray", "raylet", "gunicorn", "uvicorn", "torchrun")


@dataclass(frozen=True, slots=True)
class Rank:
    """A worker process by the title that it gave itself."""

    process: Process
    title: str

    @property
    def pid(self) -> int:
        return self.process.pid


@dataclass(frozen=True, slots=True)
class Server:
    """A server by its main process; an `embedded` one is an engine inside a program of another kind."""

    kind: Kind
    main: Process
    ranks: tuple[Rank, ...] = ()
    embedded: bool = False


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark that runs."""

    name: str
    process: Process


@dataclass(frozen=True, slots=True)
class Found:
    """`loose` are ranks whose server is gone, `stray` children of a Python process that is gone (not all are ours)."""

    servers: tuple[Server, ...] = ()
    loose: tuple[Rank, ...] = ()
    stray: tuple[Process, ...] = ()
    benchmarks: tuple[Benchmark, ...] = ()
    table: Table = field(default_factory=dict, repr=False, compare=False)


def find(table: Table) -> Found:
    """Everything that is of interest; pure."""
    near = [process for process in table.values() if is_of_interest(process.argv)]
    mains = _mains(table, near)
    ranks: dict[int, list[Rank]] = {}
    embedded: dict[int, list[Rank]] = {}
    loose: list[Rank] = []
    for process in near:
        title = rank_title(process.argv)
        if title is None or process.pid in mains:
            continue
        rank = Rank(process, title)
        owner = _owner(table, mains, process)
        host = None if owner is not None else _embedding(table, process)
        if owner is not None:
            ranks.setdefault(owner, []).append(rank)
        elif host is not None:
            embedded.setdefault(host.pid, []).append(rank)
        else:
            loose.append(rank)
    servers = [Server(kind, table[pid], _ordered(ranks.get(pid, ()))) for pid, kind in mains.items()]
    servers += [Server(rank_kind(of[0].title), table[pid], _ordered(of), True) for pid, of in embedded.items()]
    return Found(tuple(servers), _ordered(loose), _stray(table, near), _benchmarks(table, near), table)


def _mains(table: Table, near: Iterable[Process]) -> dict[int, Kind]:
    kinds = {process.pid: kind for process in near if (kind := server_kind(process.argv))}
    return {pid: kind for pid, kind in sorted(kinds.items()) if not _is_copy(table, kinds, table[pid])}


def _is_copy(table: Table, kinds: dict[int, Kind], process: Process) -> bool:
    """A forked child has its parent's words until it gives itself a title; one of several API servers has a parent."""
    for above in ancestors(table, process.pid):
        if kinds.get(above.pid) == kinds[process.pid]:
            return above.argv == process.argv or rank_title(process.argv) is not None
    return False


def _owner(table: Table, mains: dict[int, Kind], process: Process) -> int | None:
    """The server above it; else the one that leads its process group."""
    for above in ancestors(table, process.pid):
        if above.pid in mains:
            return above.pid
    group = process.stat.group
    return group if group in mains and table[group].stat.start_ticks <= process.stat.start_ticks else None


def _embedding(table: Table, process: Process) -> Process | None:
    """The program that has started this rank itself; an init, or a supervisor of ours, only took it in."""
    above = next((one for one in ancestors(table, process.pid) if not _is_worker(one)), None)
    if above is None or _is_ours(above):
        return None
    name = PurePosixPath(above.argv[0]).name if above.argv else ""
    return above if is_python(above.argv) or name.startswith(_EMBEDDING) else None


def _is_worker(process: Process) -> bool:
    return rank_title(process.argv) is not None or is_spawned(process.argv)


def _is_ours(process: Process) -> bool:
    words = process.argv
    return any(word.endswith("launches/supervise.py") or word.startswith("sitrepd.") for word in words[1:5])


def _stray(table: Table, near: Iterable[Process]) -> tuple[Process, ...]:
    """Spawned children that init or a supervisor of ours has taken in."""
    found = []
    for process in near:
        if is_spawned(process.argv):
            parent = table.get(process.stat.parent)
            if parent is None or _is_ours(parent) or (not is_python(parent.argv) and not _is_worker(parent)):
                found.append(process)
    return tuple(found)


def _benchmarks(table: Table, near: Iterable[Process]) -> tuple[Benchmark, ...]:
    found = [Benchmark(name, process) for process in near if (name := benchmark_name(process.argv))]
    pids = {one.process.pid for one in found}
    return tuple(one for one in found if not any(above.pid in pids for above in ancestors(table, one.process.pid)))


def _ordered(ranks: Iterable[Rank]) -> tuple[Rank, ...]:
    return tuple(sorted(ranks, key=lambda rank: (rank.title, rank.pid)))
