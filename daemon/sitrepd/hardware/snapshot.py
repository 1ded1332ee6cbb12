from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from sitrepd.hardware.disks import Disk
from sitrepd.hardware.gpus import GpuFacts
from sitrepd.hardware.machine import Machine, read_machine
from sitrepd.hardware.network import Interface
from sitrepd.hardware.nvml import Nvml
from sitrepd.hardware.topology import Matrix, interconnect_word, pci_path

# What changes by itself from one moment to the next: a link slows down when a GPU idles, a disk fills.
_PASSING_GPU_FIELDS = {"pcie_generation"}
_PASSING_DISK_FIELDS = {"free_bytes", "holds"}

_HOST_FIELDS = (
    *("name", "os", "cpu", "cpu_count", "memory_bytes", "gpus"),
    *("interconnect", "topology", "numa", "disks", "note"),
)
_GPU_FIELDS = ("index", "name", "memory_bytes", "uuid", "pcie", "architecture")


class HostSnapshot(BaseModel):
    """A host as it was found, in the field names of the portable session file and some more."""

    model_config = ConfigDict(frozen=True)

    name: str
    os: str
    cpu: str | None = None
    cpu_count: int
    memory_bytes: int
    gpus: tuple[GpuFacts, ...] = ()
    interconnect: str | None = None
    topology: Matrix = ()
    numa: tuple[str, ...] = ()
    disks: tuple[Disk, ...] = ()
    note: str | None = None
    driver: str | None = None
    cuda_driver: str | None = None
    kernel: str
    cpu_architecture: str
    machine_id: str | None = None
    sockets: int | None = None
    cores: int | None = None
    available_cpus: int
    swap_bytes: int
    memory_limit_bytes: int | None = None
    container: str | None = None
    virtualization: str | None = None
    boot_id: str | None = None
    caches: tuple[str, ...] = ()
    network: tuple[Interface, ...] = ()
    nic_paths: dict[str, tuple[str, ...]] = {}
    peers: Matrix = ()
    cpu_limit: float | None = None
    cpuset: str | None = None

    def host_fields(self) -> dict[str, Any]:
        """Only what a host line of the portable session file has; a GPU that never told its name is "unknown"."""
        told = self.model_dump(mode="json", include=set(_HOST_FIELDS))
        told["gpus"] = [{name: gpu[name] for name in _GPU_FIELDS} for gpu in told["gpus"]]
        for gpu in told["gpus"]:
            gpu["name"] = gpu["name"] or "unknown"
        return told

    def static_facts(self) -> dict[str, Any]:
        """All but what passes by itself: free space, link speed."""
        facts: dict[str, Any] = self.model_dump(mode="json")
        _drop(facts["gpus"], _PASSING_GPU_FIELDS)
        for disk in facts["disks"]:
            # The size of a ZFS dataset moves with its neighbours' use, and a file server may fail to answer.
            elastic = {"total_bytes"} if disk["network"] or disk["filesystem"] == "zfs" else set()
            _drop([disk], _PASSING_DISK_FIELDS | elastic)
        return facts

    def static_hash(self) -> str:
        """The same for two snapshots between which nothing changed but free space and link speed."""
        text = json.dumps(self.static_facts(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class SeenGpus:
    """What NVML tells of all GPUs at once; `reason` says why there are none."""

    facts: Sequence[GpuFacts] = ()
    topology: Matrix = ()
    driver: str | None = None
    cuda_driver: str | None = None
    reason: str | None = None
    peers: Matrix = ()


def see_gpus(nvml: Nvml) -> SeenGpus:
    """About a millisecond a GPU, and seconds where the driver has to be opened."""
    facts = tuple(nvml.gpu_facts())
    topology = nvml.topology() if len(facts) > 1 else ()
    peers = nvml.peers() if len(facts) > 1 else ()
    return SeenGpus(facts, topology, nvml.driver_version, nvml.cuda_driver_version, nvml.reason, peers)


def take_snapshot(nvml: Nvml, paths: Sequence[str | Path] = ()) -> HostSnapshot:
    """Blocks as NVML does; `paths` (the store, models) name disks that would be left out otherwise."""
    return with_gpus(read_machine(paths), see_gpus(nvml))


def with_gpus(machine: Machine, gpus: SeenGpus) -> HostSnapshot:
    return combine(
        machine, gpus.facts, gpus.topology, peers=gpus.peers, driver=gpus.driver, cuda_driver=gpus.cuda_driver,
        reason=gpus.reason,
    )  # fmt: skip


def combine(
    machine: Machine,
    gpus: Sequence[GpuFacts],
    topology: Matrix = (),
    *,
    peers: Matrix = (),
    driver: str | None = None,
    cuda_driver: str | None = None,
    reason: str | None = None,
    sys_root: Path = Path("/sys"),
) -> HostSnapshot:
    """`reason` says why NVML gave no GPUs, and becomes the note; a GPU that is absent is named there too."""
    absent = [f"GPU {gpu.index}: {gpu.reason}" for gpu in gpus if gpu.reason and gpu.reason != reason]
    told = {name: getattr(machine, name) for name in Machine.__slots__}
    return HostSnapshot(
        **told,
        gpus=tuple(gpus),
        topology=topology,
        interconnect=interconnect_word(topology),
        peers=peers,
        nic_paths=_nic_paths(machine, gpus, sys_root),
        driver=driver,
        cuda_driver=cuda_driver,
        note="; ".join([*([reason] if reason else []), *absent]) or None,
    )


def _nic_paths(machine: Machine, gpus: Sequence[GpuFacts], sys_root: Path) -> dict[str, tuple[str, ...]]:
    """By interface, the way to each GPU in the words of `nvidia-smi topo -m`."""
    addresses = [gpu.pci_bus_id for gpu in gpus]
    if not addresses or None in addresses:
        return {}
    return {
        nic.name: tuple(pci_path(nic.pci_bus_id, address or "", sys_root) for address in addresses)
        for nic in machine.network
        if nic.pci_bus_id
    }


def _drop(rows: Sequence[dict[str, Any]], names: set[str]) -> None:
    for row in rows:
        for name in names:
            row.pop(name, None)
