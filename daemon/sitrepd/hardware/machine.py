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
from sitrepd.hardware.files import read
from sitrepd.hardware.limits import cpu_limit, cpuset, memory_limit
from sitrepd.hardware.network import Interface, interfaces
from sitrepd.hardware.processor import caches, cpu_model, sockets_and_cores

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
    caches: tuple[str, ...] = ()
    network: tuple[Interface, ...] = ()
    cpu_limit: float | None = None
    cpuset: str | None = None


def read_machine(
    paths: Sequence[str | Path] = (), root: Path = Path("/"), besides: Sequence[str | Path] = ()
) -> Machine:
    """A few milliseconds; `root` is where proc, sys and etc are looked for.

    Disks of `paths` are told with what they hold of them, those of `besides` without.
    """
    cpuinfo = read(root / "proc/cpuinfo") or ""
    sockets, cores = sockets_and_cores(cpuinfo)
    count = psutil.cpu_count() or 1
    return Machine(
        name=socket.gethostname(),
        os=os_name(root),
        kernel=platform.release(),
        cpu_architecture=platform.machine(),
        machine_id=read(root / "etc/machine-id") or read(root / "var/lib/dbus/machine-id") or None,
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
        boot_id=read(root / "proc/sys/kernel/random/boot_id"),
        numa=numa_nodes(root),
        disks=tuple(disks(paths, besides=besides)),
        caches=caches(root),
        network=interfaces(root),
        cpu_limit=cpu_limit(root),
        cpuset=_narrower(cpuset(root), root),
    )


def os_name(root: Path = Path("/")) -> str:
    """PRETTY_NAME of os-release, else the kernel's name."""
    for path in ("etc/os-release", "usr/lib/os-release"):
        if match := re.search(r'^PRETTY_NAME="?([^"\n]+)', read(root / path) or "", re.MULTILINE):
            return match[1]
    return platform.system()


def container_hint(root: Path = Path("/")) -> str | None:
    """A guess from the marks that container engines leave; None on a plain machine or where they leave none."""
    if (root / ".dockerenv").exists():
        return "docker"
    if (root / "run/.containerenv").exists():
        return "podman"
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return "kubernetes"
    if (root / ".singularity.d").is_dir():
        return "apptainer"
    # As systemd.io/CONTAINER_INTERFACE has it: lxc, systemd-nspawn, wsl, …
    first = re.search(r"(?:^|\0)container=(\w[\w.-]*)", read(root / "proc/1/environ") or "")
    if told := read(root / "run/systemd/container") or (first[1] if first else None):
        return told.splitlines()[0][:40]
    groups = read(root / "proc/1/cgroup") or ""
    match = re.search(r"docker|kubepods|libpod|lxc|containerd", groups)
    return match[0] if match else None


def virtualization_hint(root: Path, cpuinfo: str) -> str | None:
    """The hypervisor by DMI, else "virtual machine" where the processor says so."""
    told = " ".join(read(root / "sys/class/dmi/id" / name) or "" for name in ("sys_vendor", "product_name")).lower()
    for mark, name in _HYPERVISORS.items():
        if mark in told:
            return name
    flags = re.search(r"^flags\s*:(.*)$", cpuinfo, re.MULTILINE)
    return "virtual machine" if flags and "hypervisor" in flags[1].split() else None


def numa_nodes(root: Path = Path("/")) -> tuple[str, ...]:
    """One "node0: CPUs 0-31" a node, in order."""
    nodes = sorted((root / "sys/devices/system/node").glob("node[0-9]*"), key=lambda node: int(node.name[4:]))
    return tuple(f"{node.name}: CPUs {read(node / 'cpulist') or 'none'}" for node in nodes)


def _available_cpus(count: int) -> int:
    try:
        return len(os.sched_getaffinity(0))
    except OSError:
        return count


def _narrower(told: str | None, root: Path) -> str | None:
    """A set of processors that is not simply all of them."""
    return None if told is None or told == read(root / "sys/devices/system/cpu/online") else told
