"""Where the output of a running process goes."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from sitrepd.launches.processes import read_stat

OutputKind = Literal["file", "terminal", "pipe", "socket", "null", "closed", "unreadable"]


@dataclass(frozen=True, slots=True)
class OutputTarget:
    """What a descriptor is; `path` names the file that the output ends up in (through tee too), if one is known.

    `readable_path` opens that same file from here, also when it was deleted or lies in another mount namespace.
    """

    kind: OutputKind
    path: str | None = None
    readable_path: str | None = None
    deleted: bool = False
    note: str | None = None


def stdout_target(pid: int, descriptor: int = 1) -> OutputTarget:
    """The target of descriptor 1 (or 2) of a process; a pipe is followed to the file that its `tee` writes."""
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
    return OutputTarget("terminal", note=f"its output goes to the terminal {name}")


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


def _pipe(name: str) -> OutputTarget:
    for pid in _readers(name):
        process = read_stat(pid)
        if process is None or process.name != "tee":
            continue
        for descriptor in _descriptors(pid):
            target = stdout_target(pid, descriptor) if descriptor > 2 else None
            if target and target.kind == "file":
                return OutputTarget("pipe", target.path, target.readable_path, target.deleted, f"through tee ({pid})")
    return OutputTarget("pipe", note="its output goes to a pipe, which only its reader can see")


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
