"""How the machine is on the network: interfaces with their speed, and RDMA devices."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from sitrepd.hardware.files import number, read

_MADE_UP = re.compile(r"lo$|veth|docker|br-|virbr|ifb|tunl|sit\d|cali|cni|flannel|vxlan|dummy|tap|nodelocaldns")


@dataclass(frozen=True, slots=True)
class Interface:
    """A network interface; `speed_mbps` is None where it is down or virtual, `rdma` names its RDMA device."""

    name: str
    state: str | None = None
    speed_mbps: int | None = None
    driver: str | None = None
    pci_bus_id: str | None = None
    numa_node: int | None = None
    rdma: str | None = None
    link: str | None = None


def interfaces(root: Path = Path("/")) -> tuple[Interface, ...]:
    """Those of hardware or of a container's own, and RDMA devices without one; what software made up is left out."""
    rdma = {device.name: device for device in _folders(root / "sys/class/infiniband")}
    found = [
        _interface(folder, rdma)
        for folder in _folders(root / "sys/class/net")
        if (folder / "device").exists() or not _MADE_UP.match(folder.name)
    ]
    with_net = {interface.rdma for interface in found}
    alone = [_rdma(device, device.name, None) for name, device in rdma.items() if name not in with_net]
    return (*found, *alone)


def _interface(folder: Path, rdma: dict[str, Path]) -> Interface:
    device = folder / "device"
    names = [one.name for one in _folders(device / "infiniband")]
    if names and names[0] in rdma:
        return _rdma(rdma[names[0]], folder.name, folder)
    return Interface(
        folder.name, read(folder / "operstate"), number(folder / "speed"), _target(device / "driver"), *_place(device)
    )


def _rdma(device: Path, name: str, net: Path | None) -> Interface:
    """Its first port: "InfiniBand, 400 Gb/sec (4X NDR)"."""
    port = device / "ports/1"
    told = [part for part in (read(port / "link_layer"), read(port / "rate")) if part]
    state = (read(port / "state") or "").rpartition(": ")[2].lower() or None
    return Interface(
        name,
        (read(net / "operstate") if net else None) or state,
        number(net / "speed") if net else None,
        _target(device / "device/driver"),
        *_place(device / "device"),
        rdma=device.name,
        link=", ".join(told) or None,
    )


def _place(device: Path) -> tuple[str | None, int | None]:
    """(PCI address, NUMA node); a virtio device hangs below the PCI one."""
    real = device.resolve()
    for folder in (real, *real.parents):
        if re.fullmatch(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d", folder.name):
            return folder.name, number(folder / "numa_node")
    return None, None


def _target(link: Path) -> str | None:
    return link.resolve().name if link.exists() else None


def _folders(path: Path) -> list[Path]:
    try:
        return sorted(path.iterdir())
    except OSError:
        return []
