"""Processes of this machine by /proc: who they are, what belongs to a launch, what it uses, where its output goes.

Nothing here raises because a process ended or belongs to somebody else: what cannot be read is None or left out.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from sitrepd.launches.launchers.base import ProcessIdentity

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "busybox"})


@dataclass(frozen=True, slots=True)
class Stat:
    """The fields of /proc/PID/stat that are used here; `name` has at most 15 bytes."""

    pid: int
    name: str
    state: str
    parent: int
    group: int
    session: int
    cpu_s: float
    threads: int
    start_ticks: int
    rss_bytes: int

    @property
    def living(self) -> bool:
        return self.state not in "ZX"


@dataclass(frozen=True, slots=True)
class TreeCounters:
    """Sums over the living processes of a tree; shared pages count once a process, unreadable bytes are None."""

    processes: int
    threads: int
    cpu_s: float
    rss_bytes: int
    disk_read_bytes: int | None
    disk_write_bytes: int | None
    read_bytes: int | None
    """All that was read, from page cache, pipes and sockets too (`rchar`)."""


@cache
def boot_id() -> str:
    """The kernel's id of this boot; start ticks of another boot mean nothing."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@cache
def _boot_time() -> float:
    with open("/proc/stat", "rb") as file:
        return next(float(line.split()[1]) for line in file if line.startswith(b"btime"))


def read_stat(pid: int) -> Stat | None:
    """One process now, or None when there is none of that pid."""
    line = _read(f"/proc/{pid}/stat", 4096)
    if line is None:
        return None
    head, _, rest = line.rpartition(b")")
    f = rest.split()
    if len(f) < 22:
        return None
    name = head.partition(b"(")[2].decode(errors="replace")
    numbers = (int(f[1]), int(f[2]), int(f[3]), (int(f[11]) + int(f[12])) / _TICKS_PER_S, int(f[17]), int(f[19]))
    return Stat(pid, name, f[0].decode(), *numbers, rss_bytes=int(f[21]) * _PAGE_BYTES)


def _read(path: str, block: int) -> bytes | None:
    """The whole of a small file of /proc; a third of the time that a file object takes."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        data = os.read(descriptor, block)
        while len(data) % block == 0 and data and (more := os.read(descriptor, block)):
            data += more
        return data
    except OSError:
        return None
    finally:
        os.close(descriptor)


def read_stats() -> dict[int, Stat]:
    """All processes that can be seen, by pid (about 15 µs each)."""
    return {pid: stat for pid in _pids() if (stat := read_stat(pid))}


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def identify(pid: int) -> ProcessIdentity | None:
    """The identity of the process that has this pid now."""
    stat = read_stat(pid)
    return identity_of(stat) if stat else None


def identity_of(stat: Stat) -> ProcessIdentity:
    """The lasting name of a process of this machine and boot."""
    return ProcessIdentity(socket.gethostname(), stat.pid, stat.start_ticks, boot_id())


def started_at(start_ticks: int) -> datetime:
    """When a process of this boot started (to 10 ms, as psutil's create_time)."""
    return datetime.fromtimestamp(_boot_time() + start_ticks / _TICKS_PER_S, UTC)


def is_alive(identity: ProcessIdentity) -> bool:
    """Whether this very process still runs; a zombie does not, nor one that has got the same pid later."""
    stat = read_stat(identity.pid)
    return stat is not None and stat.living and _is_same(identity, stat)


def _is_same(identity: ProcessIdentity, stat: Stat) -> bool:
    return stat.start_ticks == identity.start_ticks and identity.boot_id == boot_id()


def send_signal(identity: ProcessIdentity, signum: int) -> bool:
    """Signal this very process; False when it is gone. Raises PermissionError for another user's."""
    try:
        handle = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return False
    except OSError:
        return _send_unguarded(identity, signum)
    try:
        if not is_alive(identity):
            return False
        signal.pidfd_send_signal(handle, signum)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def _send_unguarded(identity: ProcessIdentity, signum: int) -> bool:
    """For kernels without pidfds: the pid could change hands between the look and the signal."""
    if not is_alive(identity):
        return False
    try:
        os.kill(identity.pid, signum)
    except ProcessLookupError:
        return False
    return True


def process_tree(
    main: ProcessIdentity,
    supervisor: ProcessIdentity | None = None,
    known: Iterable[ProcessIdentity] = (),
    stats: Mapping[int, Stat] | None = None,
) -> dict[int, Stat]:
    """The living processes of a launch: descendants of the main process, of its supervisor (orphaned ranks come to it)
    and of `known` ones, and whoever is in the session or group that the main process founded.

    The supervisor itself is not of them. Nothing is claimed through a pid that has changed hands.
    """
    stats = read_stats() if stats is None else stats
    if main.boot_id != boot_id():
        return {}
    holder = stats.get(main.pid)
    founded = main.pid if holder is None or _is_same(main, holder) else -1
    # A number stays taken as long as a session or group bears it, so its members are this launch's own.
    found = {pid for pid, stat in stats.items() if founded in (stat.session, stat.group)}
    roots = [main, *known, *([supervisor] if supervisor else [])]
    found |= {root.pid for root in roots if root.pid in stats and _is_same(root, stats[root.pid])}
    _add_descendants(found, stats)
    if supervisor:
        found.discard(supervisor.pid)
    return {pid: stats[pid] for pid in sorted(found) if stats[pid].living}


def _add_descendants(found: set[int], stats: Mapping[int, Stat]) -> None:
    children: dict[int, list[int]] = {}
    for stat in stats.values():
        children.setdefault(stat.parent, []).append(stat.pid)
    ahead = list(found)
    while ahead:
        new = [pid for pid in children.get(ahead.pop(), ()) if pid not in found]
        found.update(new)
        ahead += new


def server_in_shell(shell: ProcessIdentity, stats: Mapping[int, Stat] | None = None) -> ProcessIdentity | None:
    """The server that a shell runs in the foreground: the oldest child, down to the first that is no shell itself."""
    stats = read_stats() if stats is None else stats
    stat = stats.get(shell.pid)
    if stat is None or not stat.living or not _is_same(shell, stat):
        return None
    while stat.name in SHELLS:
        children = [child for child in stats.values() if child.parent == stat.pid and child.living]
        if not children:
            break
        stat = min(children, key=lambda child: (child.start_ticks, child.pid))
    return identity_of(stat)


def tree_counters(pids: Collection[int]) -> TreeCounters:
    """What the processes use together, now."""
    stats = [stat for pid in pids if (stat := read_stat(pid)) and stat.living]
    ios = [_read_io(stat.pid) for stat in stats]
    return TreeCounters(
        processes=len(stats),
        threads=sum(stat.threads for stat in stats),
        cpu_s=sum(stat.cpu_s for stat in stats),
        rss_bytes=sum(stat.rss_bytes for stat in stats),
        disk_read_bytes=_total(ios, "read_bytes"),
        disk_write_bytes=_total(ios, "write_bytes"),
        read_bytes=_total(ios, "rchar"),
    )


def _read_io(pid: int) -> dict[str, int]:
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    except OSError:
        return {}
    return {name: int(value) for name, _, value in (line.partition(": ") for line in lines)}


def _total(ios: list[dict[str, int]], name: str) -> int | None:
    values = [io[name] for io in ios if name in io]
    return sum(values) if values else None


def read_argv(pid: int) -> list[str]:
    """The words it was started with, or its title as one word; empty when unreadable. Secrets are not removed."""
    raw = _read(f"/proc/{pid}/cmdline", 1 << 16)
    return os.fsdecode(raw.rstrip(b"\0")).split("\0") if raw else []


def read_environ(pid: int) -> dict[str, str] | None:
    """The environment it was started with, or None when it may not be read. Secrets are not removed."""
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None
    pairs = (os.fsdecode(entry).partition("=") for entry in raw.split(b"\0") if entry)
    return {name: value for name, _, value in pairs}


def read_cwd(pid: int) -> str | None:
    """Its working directory now."""
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return None
