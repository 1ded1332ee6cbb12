from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "ceph", "lustre", "beegfs", "gpfs", "wekafs", "afs", "9p", "glusterfs"}
_LOCAL = {"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "bcachefs", "f2fs", "jfs", "ntfs", "ntfs3", "vfat", "exfat"}
_NETWORK_WAIT_S = 1.0


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of /proc/self/mountinfo; `device` is what is mounted, `number` its major:minor."""

    path: str
    device: str
    filesystem: str
    number: str
    root: str = "/"

    @property
    def network(self) -> bool:
        return self.filesystem in _NETWORK or self.filesystem.startswith("fuse.")


@dataclass(frozen=True, slots=True)
class Disk:
    """A mounted file system; sizes are None where a network file system does not answer."""

    path: str
    device: str
    filesystem: str
    network: bool
    total_bytes: int | None = None
    free_bytes: int | None = None
    holds: tuple[str, ...] = ()


def disks(
    paths: Sequence[str | Path] = (),
    mountinfo: Path = Path("/proc/self/mountinfo"),
    besides: Sequence[str | Path] = (),
) -> list[Disk]:
    """Local disks, and whatever the given paths lie on; `holds` says which of `paths` lie where."""
    mounts = parse_mountinfo(_lines(mountinfo))
    held: dict[str, list[str]] = {}
    for path in paths:
        if mount := mount_of(os.path.realpath(path), mounts):
            held.setdefault(mount.path, []).append(str(path))
    others = {mount.path for path in besides if (mount := mount_of(os.path.realpath(path), mounts))}
    shown = [*real_mounts(mounts), *(mount for mount in mounts if mount.path in held or mount.path in others)]
    unique = {mount.path: mount for mount in shown}
    return [_measured(unique[path], tuple(held.get(path, ()))) for path in sorted(unique)]


def parse_mountinfo(lines: Iterable[str]) -> list[Mount]:
    """See proc(5): optional fields end with a lone hyphen; a later mount on the same path hides the earlier."""
    mounts: dict[str, Mount] = {}
    for line in lines:
        before, hyphen, after = line.partition(" - ")
        head, tail = before.split(), after.split()
        if hyphen and len(head) >= 5 and len(tail) >= 2:
            path = _unescaped(head[4])
            mounts[path] = Mount(path, _unescaped(tail[1]), tail[0], head[2], _unescaped(head[3]))
    return list(mounts.values())


def mount_of(path: str, mounts: Sequence[Mount]) -> Mount | None:
    inside = [mount for mount in mounts if path == mount.path or path.startswith(mount.path.rstrip("/") + "/")]
    return max(inside, key=lambda mount: len(mount.path), default=None)


def real_mounts(mounts: Sequence[Mount]) -> list[Mount]:
    """One mount for each local disk, the one nearest its root, and what holds "/" (an overlay in a container)."""
    best: dict[str, Mount] = {}
    for mount in mounts:
        if mount.filesystem not in _LOCAL or mount.path.startswith("/etc/"):
            continue
        before = best.get(mount.number)
        if before is None or (len(mount.root), len(mount.path)) < (len(before.root), len(before.path)):
            best[mount.number] = mount
    top = [mount for mount in mounts if mount.path == "/" and mount.number not in best]
    return [*top, *best.values()]


def _measured(mount: Mount, holds: tuple[str, ...]) -> Disk:
    sizes = _sizes_in_time(mount.path) if mount.network else _sizes(mount.path)
    total, free = sizes or (None, None)
    return Disk(mount.path, mount.device, mount.filesystem, mount.network, total, free, holds)


def _sizes(path: str) -> tuple[int, int] | None:
    try:
        told = os.statvfs(path)
    except OSError:
        return None
    return told.f_blocks * told.f_frsize, told.f_bavail * told.f_frsize


def _sizes_in_time(path: str) -> tuple[int, int] | None:
    """A dead NFS server blocks statvfs for ever, so a thread waits for it in our place."""
    answers: list[tuple[int, int] | None] = []
    thread = threading.Thread(target=lambda: answers.append(_sizes(path)), name="statvfs", daemon=True)
    thread.start()
    thread.join(_NETWORK_WAIT_S)
    return answers[0] if answers else None


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return []
