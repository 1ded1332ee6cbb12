"""Shared memory and the folder of the log."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from sitrepd.launches.check.model import GIB, Check, Look, Subject, gib

_ENOUGH_SHM = GIB
_ENOUGH_DISK = 100 << 20


def check_shm(subject: Subject, look: Look) -> Iterable[Check]:
    """NCCL's ranks and the processes of a server speak through /dev/shm; a container has 64 MiB unless told."""
    if not subject.is_server or subject.facts.tp_size * subject.facts.pp_size < 2:
        return
    try:
        found = os.statvfs(look.shm)
    except OSError as error:
        yield Check(name="shm", level="warning", text=f"{look.shm} cannot be used: {error.strerror}.")
        return
    free = found.f_bavail * found.f_frsize
    if free < _ENOUGH_SHM:
        text = f"{look.shm} has {gib(free)} free of {gib(found.f_blocks * found.f_frsize)}; ranks speak through it."
        fix = "Start the container with --shm-size 32g (or --ipc host), or delete what lies there."
        yield Check(name="shm", level="warning", text=text, fix=fix)
    else:
        yield Check(name="shm", level="ok", text=f"{look.shm} has {gib(free)} free.")


def check_log(subject: Subject, _: Look) -> Iterable[Check]:
    shell = subject.plan.shell
    told = (shell.log_path if shell else None) or subject.plan.body.log_path
    if not told:
        return
    path = (subject.cwd / told).expanduser()
    folder = path.parent
    if not folder.is_dir():
        yield Check(
            name="log", level="error", text=f"The log's folder {folder} does not exist.", fix=f"mkdir -p {folder}"
        )
    elif not _writable(path):
        yield Check(name="log", level="error", text=f"The log {path} cannot be written.", fix="Choose another place.")
    elif (free := _free(folder)) is not None and free < _ENOUGH_DISK:
        text = f"The disk of the log's folder {folder} has {free >> 20} MiB free."
        yield Check(name="log", level="warning", text=text, fix="Free some space, or choose another place.")
    else:
        yield Check(name="log", level="ok", text=f"The log {path} can be written.")


def _writable(path: Path) -> bool:
    if path.exists():
        return not path.is_dir() and os.access(path, os.W_OK)
    return os.access(path.parent, os.W_OK | os.X_OK)


def _free(folder: Path) -> int | None:
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize
