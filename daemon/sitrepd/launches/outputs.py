"""Where the output of a running process goes."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from sitrepd.launches.processes import read_stat

_FILTERS = ("cat", "grep", "egrep", "sed", "awk", "gawk", "mawk", "perl", "ts", "tr", "cut", "tee")
"""What passes its input on line by line, so that a log remains one."""
_MOST_FILTERS = 4
_MOST_ANCESTORS = 4
OutputKind = Literal["file", "terminal", "pipe", "socket", "null", "closed", "unreadable"]


@dataclass(frozen=True, slots=True)
class OutputTarget:
    """What a descriptor is; `path` names the file that the output ends up in, if one is known, through `tee`,
    filters and `script` too.

    `readable_path` opens that same file from here, also when it was deleted or lies in another mount namespace.
    """

    kind: OutputKind
    path: str | None = None
    readable_path: str | None = None
    deleted: bool = False
    note: str | None = None


def stdout_target(pid: int, descriptor: int = 1) -> OutputTarget:
    """The target of descriptor 1 (or 2) of a process; a pipe is followed through `tee` and filters to their file."""
    link = f"/proc/{pid}/fd/{descriptor}"
    try:
        name, info = os.readlink(link), os.stat(link)
    except FileNotFoundError:
        process = read_stat(pid)
        gone = process is None or not process.living
        return OutputTarget("closed", note="the process is gone" if gone else "the descriptor is closed")
    except OSError as error:
        return OutputTarget("unreadable", note=f"its descriptors may not be read: {error.strerror}")
    if stat.S_ISREG(info.st_mode):
        return _file(link, name, info)
    if stat.S_ISFIFO(info.st_mode):
        return _pipe(name)
    if stat.S_ISSOCK(info.st_mode):
        return OutputTarget("socket", note="its output goes to a socket")
    if name == os.devnull:
        return OutputTarget("null", note="its output is thrown away")
    return _terminal(pid, name)


def _file(link: str, name: str, info: os.stat_result) -> OutputTarget:
    deleted = info.st_nlink == 0
    path = name.removesuffix(" (deleted)") if deleted else name
    try:
        seen = os.stat(path)
        same = (seen.st_dev, seen.st_ino) == (info.st_dev, info.st_ino)
    except OSError:
        same = False
    note = "the file was deleted" if deleted else None if same else "the path is not this file from here"
    return OutputTarget("file", path, path if same else link, deleted, note)


def _pipe(name: str, depth: int = 0) -> OutputTarget:
    for pid in _readers(name):
        process = read_stat(pid)
        target = _through(pid, process.name, depth) if process is not None else None
        if target is not None:
            return target
    return OutputTarget("pipe", note="its output goes to a pipe, which only its reader can see")


def _through(pid: int, name: str, depth: int) -> OutputTarget | None:
    """Where what a reader takes goes on to: the file that `tee` writes, or the output of a filter."""
    if name == "tee":
        found = _written_by(pid)
        if found is not None:
            return _by(found, f"through tee ({pid})")
    if name not in _FILTERS or depth >= _MOST_FILTERS:
        return None
    link = f"/proc/{pid}/fd/1"
    try:
        target, info = os.readlink(link), os.stat(link)
    except OSError:
        return None
    if stat.S_ISREG(info.st_mode):
        return _by(_file(link, target, info), f"through {name} ({pid})")
    return _pipe(target, depth + 1) if stat.S_ISFIFO(info.st_mode) else None


def _by(target: OutputTarget, note: str, kind: OutputKind = "pipe") -> OutputTarget:
    return OutputTarget(kind, target.path, target.readable_path, target.deleted, note)


def _written_by(pid: int) -> OutputTarget | None:
    """The first file that a process has open for writing beside its own output."""
    for descriptor in _descriptors(pid):
        link = f"/proc/{pid}/fd/{descriptor}"
        try:
            writes = descriptor > 2 and bool(os.lstat(link).st_mode & stat.S_IWUSR)
            name, info = os.readlink(link), os.stat(link)
        except OSError:
            continue
        if writes and stat.S_ISREG(info.st_mode):
            return _file(link, name, info)
    return None


def _terminal(pid: int, name: str) -> OutputTarget:
    """A terminal that `script` has made for its child is written down in a file."""
    parent = read_stat(pid)
    for _ in range(_MOST_ANCESTORS):
        parent = read_stat(parent.parent) if parent is not None else None
        if parent is None or parent.pid <= 1:
            break
        if parent.name == "script":
            found = _written_by(parent.pid)
            if found is not None:
                return _by(found, f"through script ({parent.pid})", "terminal")
    return OutputTarget("terminal", note=f"its output goes to the terminal {name}")


def _readers(pipe: str) -> Iterator[int]:
    for entry in os.listdir("/proc"):
        if entry.isdigit() and any(_reads(int(entry), descriptor, pipe) for descriptor in _descriptors(int(entry))):
            yield int(entry)


def _descriptors(pid: int) -> list[int]:
    try:
        return sorted(int(name) for name in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return []


def _reads(pid: int, descriptor: int, pipe: str) -> bool:
    try:
        link = f"/proc/{pid}/fd/{descriptor}"
        return os.readlink(link) == pipe and not os.lstat(link).st_mode & stat.S_IWUSR
    except OSError:
        return False
