from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sitrepd.hardware.driver import Answer, Driver
from sitrepd.hardware.gpus import GpuFacts, GpuProcess, architecture_word, pcie_word
from sitrepd.hardware.topology import SWITCH, UNKNOWN

_REMOTE_SWITCH, _REMOTE_UNKNOWN = 2, 255
_NO_BUS = 0xFF
_MOST_LINKS = 36


def facts(driver: Driver, handle: object, known: GpuFacts, sys_root: Path) -> GpuFacts:
    """`known` gives index, UUID and PCI address."""
    ask = driver.ask
    architecture = ask("nvmlDeviceGetArchitecture", handle)
    generation_max = ask("nvmlDeviceGetMaxPcieLinkGeneration", handle)
    width_max = ask("nvmlDeviceGetMaxPcieLinkWidth", handle)
    limits = ask("nvmlDeviceGetPowerManagementLimitConstraints", handle) or (None, None)
    node, cpus = _affinity(sys_root, known.pci_bus_id)
    return replace(
        known,
        name=ask("nvmlDeviceGetName", handle),
        pcie=pcie_word(generation_max, width_max),
        architecture=None if architecture is None else architecture_word(architecture),
        compute_capability=_dotted(ask("nvmlDeviceGetCudaComputeCapability", handle)),
        memory_bytes=_memory(driver, handle)[2],
        vbios=ask("nvmlDeviceGetVbiosVersion", handle),
        pcie_generation=ask("nvmlDeviceGetCurrPcieLinkGeneration", handle),
        pcie_generation_max=generation_max,
        pcie_width=ask("nvmlDeviceGetCurrPcieLinkWidth", handle),
        pcie_width_max=width_max,
        power_limit_w=_watts(ask("nvmlDeviceGetEnforcedPowerLimit", handle)),
        power_limit_default_w=_watts(ask("nvmlDeviceGetPowerManagementDefaultLimit", handle)),
        power_limit_min_w=_watts(limits[0]),
        power_limit_max_w=_watts(limits[1]),
        ecc=_switched(ask("nvmlDeviceGetEccMode", handle)),
        mig=_switched(ask("nvmlDeviceGetMigMode", handle)),
        persistence=_flag(ask("nvmlDeviceGetPersistenceMode", handle)),
        numa_node=node,
        cpu_affinity=cpus,
        reason=None,
    )


def processes(driver: Driver, handle: object, index: int, uuid: str) -> list[GpuProcess]:
    """One row a pid: the driver lists a process under each kind of context that it holds."""
    rows: dict[int, GpuProcess] = {}
    for kind, pid, used in driver.processes(handle):
        before = rows.get(pid)
        if before is None:
            rows[pid] = GpuProcess(index, uuid, pid, used, kind)
        elif used is not None and used > (before.used_bytes or 0):
            rows[pid] = replace(before, used_bytes=used)
    return sorted(rows.values(), key=lambda process: process.pid)


def nvlinks(driver: Driver, handle: object) -> list[str | None]:
    """The PCI bus id at the far end of each active NVLink; None for a switch, which a virtual machine may not see."""
    far: list[str | None] = []
    for link in range(_MOST_LINKS):
        active = driver.ask("nvmlDeviceGetNvLinkState", handle, link)
        if active is None:
            break
        if not active:
            continue
        kind = driver.ask("nvmlDeviceGetNvLinkRemoteDeviceType", handle, link)
        place = None if kind == _REMOTE_SWITCH else driver.ask("nvmlDeviceGetNvLinkRemotePciInfo", handle, link)
        if kind in (_REMOTE_SWITCH, _REMOTE_UNKNOWN) or (place is not None and place.bus == _NO_BUS):
            far.append(None)
        elif place is not None:
            far.append(bus_id(place))
    return far


def far_ends(far: Sequence[str | None], index_of: Mapping[str, int]) -> list[int]:
    """Links to what is neither a switch nor one of our GPUs are left out."""
    return [
        SWITCH if address is None else index_of[address] for address in far if address is None or address in index_of
    ]


# nvmlGpuP2PStatus_t, in the words of `nvidia-smi topo -p2p r`.
_PEERS = {0: "OK", 1: "chipset", 2: "GPU", 3: "topology", 4: "disabled", 5: "not supported"}


def peer_word(status: int | None) -> str:
    return UNKNOWN if status is None else _PEERS.get(status, UNKNOWN)


def cuda_version(number: int | None) -> str | None:
    """13000 is 13.0."""
    return None if not number else f"{number // 1000}.{number % 1000 // 10}"


def _memory(driver: Driver, handle: object) -> tuple[int | None, int | None, int | None]:
    """(used, reserved, total); version 1 of the call counts the reserve as used, and does not tell it."""
    newer = driver.ask("nvmlDeviceGetMemoryInfo", handle, 0x02000028)
    if newer is not None:
        return newer.used, newer.reserved, newer.total
    older = driver.ask("nvmlDeviceGetMemoryInfo", handle)
    return (None, None, None) if older is None else (older.used, None, older.total)


def bus_id(info: Answer) -> str | None:
    """As sysfs writes it: 0000:c1:00.0."""
    return None if info is None else f"{info.domain:04x}:{info.bus:02x}:{info.device:02x}.0"


def _affinity(sys_root: Path, address: str | None) -> tuple[int | None, str | None]:
    device = sys_root / "bus/pci/devices" / (address or "unknown")
    node = _read(device / "numa_node")
    known = node is not None and node.lstrip("-").isdigit() and int(node) >= 0
    return (int(node) if known and node else None), _read(device / "local_cpulist") or None


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None


def _dotted(numbers: tuple[int, int] | None) -> str | None:
    return None if numbers is None else f"{numbers[0]}.{numbers[1]}"


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1000


def _flag(number: int | None) -> bool | None:
    return None if number is None else bool(number)


def _switched(modes: Sequence[int] | None) -> bool | None:
    """NVML answers (now, after the next reset)."""
    return None if modes is None else bool(modes[0])
