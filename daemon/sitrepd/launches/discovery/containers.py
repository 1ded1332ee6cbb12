"""Which container a process is in, and the file where its engine keeps what the container prints."""

from __future__ import annotations

import json
import os
import pwd
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_ID = re.compile(r"[0-9a-f]{64}")
_ROOT = Path("/")


@dataclass(frozen=True, slots=True)
class Container:
    """`engine` is docker, podman, kubernetes or "" where only another pid namespace was seen; `id` has 64 digits."""

    engine: str = ""
    id: str = ""

    @property
    def name(self) -> str:
        return f"{self.engine or 'a'} container{f' {self.id[:12]}' if self.id else ''}"


def container_of(pid: int) -> Container | None:
    """None for a process that is where we are."""
    named = container_in(_cgroup(str(pid)), _cgroup("self"))
    if named is not None:
        return named
    theirs, ours = _pid_namespace(str(pid)), _pid_namespace("self")
    return Container() if theirs and ours and theirs != ours else None


def container_in(cgroup: str, ours: str = "") -> Container | None:
    """From the text of /proc/PID/cgroup, beside our own: all processes of our own container are at home."""
    for line in cgroup.splitlines():
        found = _ID.search(line)
        if found and found[0] not in ours:
            return Container(_engine(line), found[0])
    return None


def _engine(line: str) -> str:
    if "kubepods" in line or "cri-" in line or "crio-" in line:
        return "kubernetes"
    return "podman" if "libpod" in line else "docker" if "docker" in line else "container"


def _cgroup(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return ""


def _pid_namespace(pid: str) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return None


def log_files(container: Container, uid: int | None, root: Path = _ROOT) -> list[tuple[Path, str]]:
    """Where its engine would keep the log, with the format of the lines: `docker` (JSON) or `cri`."""
    if not container.id:
        return []
    if container.engine == "podman":
        pattern = f"*-containers/{container.id}/userdata/ctr.log"
        return [(path, "cri") for store in _podman_stores(uid, root) for path in _glob(store, pattern)]
    if container.engine == "kubernetes":
        return [(path, "cri") for path in _glob(root / "var/log/containers", f"*-{container.id}.log")]
    return [(_docker_root(root) / "containers" / container.id / f"{container.id}-json.log", "docker")]


def _docker_root(root: Path) -> Path:
    with suppress(OSError, ValueError, AttributeError):
        told = json.loads((root / "etc/docker/daemon.json").read_text()).get("data-root")
        if told:
            return root / str(told).lstrip("/")
    return root / "var/lib/docker"


def _podman_stores(uid: int | None, root: Path) -> Iterator[Path]:
    yield root / "var/lib/containers/storage"
    with suppress(KeyError):
        home = pwd.getpwuid(uid).pw_dir if uid is not None else ""
        if home:
            yield root / home.lstrip("/") / ".local/share/containers/storage"


def _glob(folder: Path, pattern: str) -> list[Path]:
    try:
        return sorted(folder.glob(pattern))
    except OSError:
        return []
