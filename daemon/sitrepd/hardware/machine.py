from __future__ import annotations

import os
import platform
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from sitrepd.hardware.disks import Disk, disks

_UNLIMITED_BYTES = 1 << 60

# From the DMI strings that hypervisors give their machines.
_HYPERVISORS = {
    "kvm": "KVM",
    "qemu": "QEMU",
    "vmware": "VMware",
    "virtualbox": "VirtualBox",
    "xen": "Xen",
    "hyper-v": "Hyper-V",
    "virtual machine": "Hyper-V",
    "amazon ec2": "Amazon EC2",
    "google compute engine": "Google Compute Engine",
    "firecracker": "Firecracker",
}


@dataclass(frozen=True, slots=True)
class Machine:
    """What the machine is apart from its GPUs; `cpu_count` is of threads, `available_cpus` of those we may use."""

    name: str
    os: str
    kernel: str
    cpu_architecture: str
    machine_id: str | None
    cpu: str | None
    sockets: int | None
    cores: int | None
    cpu_count: int
    available_cpus: int
    memory_bytes: int
    swap_bytes: int
    memory_limit_bytes: int | None
    container: str | None
    virtualization: str | None
    boot_id: str | None
    numa: tuple[str, ...]
    disks: tuple[Disk, ...]


def read_machine(paths: Sequence[str | Path] = (), root: Path = Path("/")) -> Machine:
    """A few milliseconds; `root` is where proc, sys and etc are looked for, `paths` name the disks that matter."""
    cpuinfo = _read(root / "proc/cpuinfo") or ""
    sockets, cores = _sockets_and_cores(cpuinfo)
    count = psutil.cpu_count() or 1
    return Machine(
        name=socket.gethostname(),
        os=os_name(root),
        kernel=platform.release(),
        cpu_architecture=platform.machine(),
        machine_id=_read(root / "etc/machine-id") or _read(root / "var/lib/dbus/machine-id") or None,
        cpu=cpu_model(cpuinfo),
        sockets=sockets,
        cores=cores,
        cpu_count=count,
        available_cpus=_available_cpus(count),
        memory_bytes=psutil.virtual_memory().total,
        swap_bytes=psutil.swap_memory().total,
        memory_limit_bytes=memory_limit(root),
        container=container_hint(root),
        virtualization=virtualization_hint(root, cpuinfo),
        boot_id=_read(root / "proc/sys/kernel/random/boot_id"),
        numa=numa_nodes(root),
        disks=tuple(disks(paths)),
    )


def os_name(root: Path = Path("/")) -> str:
    """PRETTY_NAME of os-release, else the kernel's name."""
    for path in ("etc/os-release", "usr/lib/os-release"):
        if match := re.search(r'^PRETTY_NAME="?([^"\n]+)', _read(root / path) or "", re.MULTILINE):
            return match[1]
    return platform.system()


def cpu_model(cpuinfo: str) -> str | None:
    """Arm's kernels print no model name."""
    match = re.search(r"^(?:model name|Model|cpu model)\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    return " ".join(match[1].split()) if match else None


def memory_limit(root: Path = Path("/")) -> int | None:
    """The tightest limit between our cgroup and the top, version 2 or 1; None where there is none."""
    limits = [limit for path in _memory_limit_files(root) if (limit := _bytes(_read(path))) is not None]
    return min(limits, default=None)


def container_hint(root: Path = Path("/")) -> str | None:
    """A guess from the marks that container engines leave; None on a plain machine or where they leave none."""
    if (root / ".dockerenv").exists():
        return "docker"
    if (root / "run/.containerenv").exists():
        return "podman"
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return "kubernetes"
    groups = _read(root / "proc/1/cgroup") or ""
    match = re.search(r"docker|kubepods|libpod|lxc|containerd", groups)
    return match[0] if match else None


def virtualization_hint(root: Path, cpuinfo: str) -> str | None:
    """The hypervisor by DMI, else "virtual machine" where the processor says so."""
    told = " ".join(_read(root / "sys/class/dmi/id" / name) or "" for name in ("sys_vendor", "product_name")).lower()
    for mark, name in _HYPERVISORS.items():
        if mark in told:
            return name
    flags = re.search(r"^flags\s*:(.*)$", cpuinfo, re.MULTILINE)
    return "virtual machine" if flags and "hypervisor" in flags[1].split() else None


def numa_nodes(root: Path = Path("/")) -> tuple[str, ...]:
    """One "node0: CPUs 0-31" a node, in order."""
    nodes = sorted((root / "sys/devices/system/node").glob("node[0-9]*"), key=lambda node: int(node.name[4:]))
    return tuple(f"{node.name}: CPUs {_read(node / 'cpulist') or 'none'}" for node in nodes)


def _sockets_and_cores(cpuinfo: str) -> tuple[int | None, int | None]:
    seen = set()
    for block in cpuinfo.split("\n\n"):
        physical = re.search(r"^physical id\s*:\s*(\d+)", block, re.MULTILINE)
        core = re.search(r"^core id\s*:\s*(\d+)", block, re.MULTILINE)
        if physical and core:
            seen.add((physical[1], core[1]))
    return (len({physical for physical, _ in seen}), len(seen)) if seen else (None, psutil.cpu_count(logical=False))


def _memory_limit_files(root: Path) -> list[Path]:
    files = []
    for line in (_read(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, group = [*line.split(":", 2), "", ""][:3]
        if not controllers:
            files += _upwards(root / "sys/fs/cgroup", group, "memory.max")
        elif "memory" in controllers.split(","):
            files += _upwards(root / "sys/fs/cgroup/memory", group, "memory.limit_in_bytes")
    return files


def _upwards(top: Path, group: str, name: str) -> list[Path]:
    below = top / group.lstrip("/")
    return [folder / name for folder in (below, *below.parents) if folder == top or top in folder.parents]


def _bytes(text: str | None) -> int | None:
    if text is None or not text.isdigit() or int(text) >= _UNLIMITED_BYTES:
        return None
    return int(text)


def _available_cpus(count: int) -> int:
    try:
        return len(os.sched_getaffinity(0))
    except OSError:
        return count


def _read(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None
