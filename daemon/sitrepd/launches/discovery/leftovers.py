"""Processes of a start that is over which still hold something: GPU memory, a port, or the place of a rank."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlmodel import Session, col, select

from sitrepd.launches.discovery.find import Found
from sitrepd.launches.discovery.table import Process, Table, ancestors, uid_of
from sitrepd.launches.discovery.words import rank_title
from sitrepd.launches.models import Launch
from sitrepd.launches.ports import ports_of
from sitrepd.launches.processes import boot_id, read_environ
from sitrepd.launches.start import MARK
from sitrepd.storage import ids

_MOST_LAUNCHES = 200


@dataclass(frozen=True, slots=True)
class Ended:
    """A launch that is over, by its main process and the supervisor that its orphans come to."""

    number: int
    main: tuple[int, int]
    supervisor: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Orphan:
    """Processes that belong together; `launch` is None where it is not known whose they were."""

    launch: int | None
    processes: tuple[Process, ...]
    gpu_bytes: int | None
    ports: tuple[int, ...]

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self.processes]

    @property
    def names(self) -> list[str]:
        """What they call themselves, each name once."""
        names = [rank_title(process.argv) or process.stat.name for process in self.processes]
        return list(dict.fromkeys(names))

    @property
    def command(self) -> str:
        """Ends them; ranks without a server do not heed SIGTERM."""
        owners = {uid_of(pid) for pid in self.pids} - {None}
        sudo = "" if os.geteuid() == 0 or owners <= {os.geteuid()} else "sudo "
        return f"{sudo}kill -KILL {' '.join(map(str, self.pids))}"


def ended_launches(db: Session, host_id: int | None) -> list[Ended]:
    """The latest launches of this machine and boot that are over."""
    query = (
        select(Launch.id, Launch.process)
        .where(col(Launch.watched).is_(True), Launch.host_id == host_id, col(Launch.ended_at).is_not(None))
        .order_by(col(Launch.id).desc())
        .limit(_MOST_LAUNCHES)
    )
    found = []
    for number, process in db.exec(query).all():
        main = _key((process or {}).get("identity"))
        if main is not None:
            found.append(Ended(number or 0, main, _key((process or {}).get("supervisor"))))
    return found


def _key(identity: Mapping[str, Any] | None) -> tuple[int, int] | None:
    if not identity or identity.get("boot_id") != boot_id():
        return None
    return identity["pid"], identity["start_ticks"]


def orphans(
    found: Found,
    ended: Iterable[Ended],
    busy: Iterable[int],
    gpu: Mapping[int, int | None],
    launches_dir: Path,
    remembered: Mapping[int, int] | None = None,
) -> list[Orphan]:
    """`busy` are pids of living servers, `gpu` bytes of GPU memory by pid, `remembered` launch numbers by pid."""
    origins, taken = _Origins(found.table, ended, launches_dir, remembered or {}), set(busy)
    loose = {rank.pid for rank in found.loose}
    stray = {process.pid for process in found.stray}
    groups: dict[tuple[int | None, int], list[Process]] = {}
    for process in found.table.values():
        if process.pid in taken:
            continue
        number = origins.launch_of(process)
        suspicious = process.pid in loose or (process.pid in stray and process.pid in gpu)
        if suspicious or (number is not None and (process.pid in gpu or ports_of(process.pid))):
            groups.setdefault((number, 0 if number is not None else process.stat.group), []).append(process)
    return [_orphan(number, processes, gpu) for (number, _), processes in groups.items()]


def _orphan(number: int | None, processes: list[Process], gpu: Mapping[int, int | None]) -> Orphan:
    held = [gpu[process.pid] or 0 for process in processes if process.pid in gpu]
    ports = sorted({port for process in processes for port in ports_of(process.pid)})
    return Orphan(number, tuple(sorted(processes, key=lambda one: one.pid)), sum(held) if held else None, tuple(ports))


class _Origins:
    """Which ended launch a process is left of: by the process group or session that its main process founded, by the
    supervisor that took it in, by the mark on its start."""

    def __init__(self, table: Table, ended: Iterable[Ended], launches_dir: Path, remembered: Mapping[int, int]) -> None:
        self._table, self._launches_dir, self._remembered = table, launches_dir, remembered
        self._founded: dict[int, Ended] = {}
        self._supervisors: dict[tuple[int, int], int] = {}
        self._numbers: set[int] = set()
        self._marks: dict[int, int | None] = {}
        for one in ended:
            self._numbers.add(one.number)
            founder = table.get(one.main[0])
            # The number stays taken while its group or session has members: nobody else can have founded it.
            if founder is None or founder.stat.start_ticks == one.main[1]:
                self._founded.setdefault(one.main[0], one)
            if one.supervisor:
                self._supervisors[one.supervisor] = one.number

    def launch_of(self, process: Process) -> int | None:
        line = [process, *ancestors(self._table, process.pid)]
        for above in line:
            if number := self._remembered.get(above.pid):
                return number
            for place in (above.stat.group, above.stat.session):
                one = self._founded.get(place)
                if one and above.stat.start_ticks >= one.main[1]:
                    return one.number
        for above in line[1:]:
            if number := self._supervisors.get((above.pid, above.stat.start_ticks)):
                return number
        return self._marked(line) if self._numbers else None

    def _marked(self, line: list[Process]) -> int | None:
        """Read of the process below init only: a child has its parent's environment, as a rule."""
        top = line[-2] if len(line) > 1 and line[-1].pid == 1 else line[-1]
        if top.pid not in self._marks:
            number = marked_launch(read_environ(top.pid), self._launches_dir)
            self._marks[top.pid] = number if number in self._numbers else None
        return self._marks[top.pid]


def marked_launch(env: Mapping[str, str] | None, launches_dir: Path) -> int | None:
    """The launch of this store that a process was started for."""
    return launch_in((env or {}).get(MARK) or "/", launches_dir)


def launch_in(folder: str, launches_dir: Path) -> int | None:
    """The number of the launch whose folder this is, in this store."""
    parsed = ids.parse_id(Path(folder).name) if Path(folder).parent == launches_dir else None
    return parsed[1] if parsed and parsed[0] == "L" else None
