"""To which launch a process on a GPU belongs, by /proc and what the store keeps of each launch's processes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlmodel import Session, col, select

from sitrepd.hardware.gpus import GpuProcess
from sitrepd.hardware.live import Owned
from sitrepd.launches.models import Launch

_MOST_LAUNCHES = 50


@dataclass(frozen=True, slots=True)
class Root:
    """The main process of a launch, and the supervisor that its orphans come to, each by pid and start."""

    launch_id: int
    main: tuple[int, int]
    supervisor: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Stat:
    name: str
    parent: int
    session: int
    start_ticks: int


def roots(db: Session, host_id: int | None, boot_id: str) -> list[Root]:
    """Of the launches of this boot, running ones first: what is left of an ended one may still hold memory."""
    query = (
        select(Launch.id, Launch.process)
        .where(col(Launch.watched).is_(True), Launch.host_id == host_id)
        .order_by(col(Launch.ended_at).is_not(None), col(Launch.id).desc())
        .limit(_MOST_LAUNCHES)
    )
    found = []
    for number, process in db.exec(query).all():
        told = process or {}
        main = _key(told.get("identity"), boot_id)
        if main is not None:
            found.append(Root(number or 0, main, _key(told.get("supervisor"), boot_id)))
        server = _key(told.get("main"), boot_id)
        if server is not None and server != main:  # in a container, say
            found.append(Root(number or 0, server))
    return found


def _key(identity: Mapping[str, Any] | None, boot_id: str) -> tuple[int, int] | None:
    if not identity or identity.get("boot_id") != boot_id:
        return None
    return identity["pid"], identity["start_ticks"]


def own(processes: Iterable[GpuProcess], launches: Sequence[Root], proc: Path = Path("/proc")) -> list[Owned]:
    """A pid of another namespace, or of a process that is gone, belongs to nobody."""
    told = []
    for process in processes:
        stat = read_stat(process.pid, proc)
        told.append(
            Owned(process=process, launch_id=owner(process.pid, launches, proc), name=stat.name if stat else None)
        )
    return told


def owner(pid: int, launches: Sequence[Root], proc: Path = Path("/proc")) -> int | None:
    """Up the line of parents to a main process or supervisor; else by the process session that a launch founded."""
    seen: set[int] = set()
    at, sessions = pid, []
    while at > 1 and at not in seen and (stat := read_stat(at, proc)):
        for root in launches:
            if (at, stat.start_ticks) in (root.main, root.supervisor):
                return root.launch_id
        seen.add(at)
        sessions.append((stat.session, stat.start_ticks))
        at = stat.parent
    for number, start_ticks in sessions:
        for root in launches:
            if number == root.main[0] and start_ticks >= root.main[1] and _founded(root, proc):
                return root.launch_id
    return None


def _founded(root: Root, proc: Path) -> bool:
    """The number stays taken while its session has members; a later leader of that pid started a new one."""
    leader = read_stat(root.main[0], proc)
    return leader is None or leader.start_ticks == root.main[1]


def read_stat(pid: int, proc: Path = Path("/proc")) -> Stat | None:
    """See proc(5): the name may hold spaces and parentheses."""
    try:
        head, _, rest = (proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")
    except OSError:
        return None
    fields = rest.split()
    return Stat(head.partition("(")[2], int(fields[1]), int(fields[3]), int(fields[19]))


def boot_id(proc: Path = Path("/proc")) -> str:
    return (proc / "sys/kernel/random/boot_id").read_text().strip()
