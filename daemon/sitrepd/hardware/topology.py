from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

Matrix = tuple[tuple[str, ...], ...]

SELF = "X"
UNKNOWN = "?"
SWITCH = -1

# nvmlGpuTopologyLevel_t in the words of `nvidia-smi topo -m`.
_PATHS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}


def path_word(level: int | None) -> str:
    return UNKNOWN if level is None else _PATHS.get(level, UNKNOWN)


def link_count(a: int, b: int, links: Mapping[int, Sequence[int]]) -> int:
    """NVLinks between two GPUs: direct ones, else those over switches, where the narrower side counts."""
    direct = list(links.get(a, ())).count(b)
    if direct:
        return direct
    return min(list(links.get(a, ())).count(SWITCH), list(links.get(b, ())).count(SWITCH))


def topology_matrix(
    gpus: Sequence[int], levels: Mapping[tuple[int, int], int | None], links: Mapping[int, Sequence[int]]
) -> Matrix:
    """`links` lists for each GPU the far end of each active NVLink: a GPU of `gpus`, or SWITCH."""

    def word(a: int, b: int) -> str:
        if a == b:
            return SELF
        count = link_count(a, b, links)
        return f"NV{count}" if count else path_word(levels.get((min(a, b), max(a, b))))

    return tuple(tuple(word(a, b) for b in gpus) for a in gpus)


def interconnect_word(matrix: Matrix) -> str | None:
    """How the GPUs are joined in one phrase; None for a lone GPU or where no pair is known."""
    words = [word for row in matrix for word in row if word not in (SELF, UNKNOWN)]
    if not words:
        return None
    links = [word for word in words if word.startswith("NV")]
    if not links:
        return "PCIe"
    if len(links) < len(words):
        return "NVLink between some GPUs, PCIe between the others"
    return f"NVLink ({links[0]})" if len(set(links)) == 1 else "NVLink"


def pci_path(a: str, b: str, sys_root: Path = Path("/sys")) -> str:
    """The word for the way between two PCI devices, by the bridges that sysfs shows above each of them."""
    devices = sys_root / "bus/pci/devices"
    one, other = (list((devices / address).resolve().relative_to(sys_root.resolve()).parts) for address in (a, b))
    if not (devices / a).exists() or not (devices / b).exists():
        return UNKNOWN
    shared = 0
    while shared < min(len(one), len(other)) and one[shared] == other[shared]:
        shared += 1
    if not any(part.startswith("pci") for part in one[:shared]):
        near = _node(devices / a) is not None and _node(devices / a) == _node(devices / b)
        return "NODE" if near else "SYS"
    bridges = [part for part in one[:shared] if part.count(":") == 2]
    if not bridges:
        return "PHB"
    # Each side's own device, and the port of the switch that it hangs on, lie below the bridge that both share.
    return "PIX" if max(len(one), len(other)) - shared <= 2 else "PXB"


def _node(device: Path) -> str | None:
    try:
        told = (device / "numa_node").read_text().strip()
    except OSError:
        return None
    return None if told.startswith("-") else told


def peer_word(matrix: Matrix) -> str | None:
    """Whether GPUs reach each other's memory, in one phrase; None where no pair is known."""
    words = {word for row in matrix for word in row if word not in (SELF, UNKNOWN)}
    if not words:
        return None
    if words == {"OK"}:
        return "between all GPUs"
    return "between some GPUs" if "OK" in words else f"not possible ({', '.join(sorted(words))})"
