"""What kind of file system a path is on, from /proc/self/mountinfo."""

from __future__ import annotations

from pathlib import Path

NETWORK_TYPES = frozenset(
    [
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "lustre",
        "gpfs",
        "beegfs",
        "ceph",
        "glusterfs",
        "afs",
        "9p",
        "fuse.sshfs",
        "fuse.s3fs",
        "fuse.gcsfuse",
        "fuse.glusterfs",
        "fuse.ceph",
        "orangefs",
        "panfs",
        "wekafs",
    ]
)


def mount_of(path: Path, mountinfo: str) -> tuple[str, str]:
    """(mount point, type) of `path`, given the text of a mountinfo file; the longest mount point wins."""
    best = ("/", "unknown")
    target = str(path)
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        point = fields[4].replace("\\040", " ")
        inside = target == point or target.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best[0]):
            best = (point, after.split()[0])
    return best


def filesystem_type(path: Path) -> str:
    """The type of the file system that holds `path` (or the nearest parent that exists), "unknown" off Linux."""
    try:
        mountinfo = Path("/proc/self/mountinfo").read_text()
    except OSError:
        return "unknown"
    return mount_of(path.expanduser().resolve(), mountinfo)[1]


def is_network_path(path: Path) -> bool:
    return filesystem_type(path) in NETWORK_TYPES
