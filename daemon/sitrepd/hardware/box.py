"""What a machine consists of, in sentences: from the snapshot that was stored of it last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sitrepd.checkpoints.words import size
from sitrepd.hardware.paths_between import grouped
from sitrepd.hardware.ranges import ranges
from sitrepd.hardware.topology import peer_word

Facts = Mapping[str, Any]


def described(facts: Facts) -> list[tuple[str, str]]:
    """(what, text) in the order in which one asks; what the machine does not tell is left out."""
    parts = (
        ("GPUs", _listed([*_gpus(facts.get("gpus") or []), *_driver(facts)])),
        ("paths between GPUs", _paths(facts)),
        ("NUMA", _numa(facts)),
        ("processor", _processor(facts)),
        ("system", _system(facts)),
        ("network", _network(facts)),
    )
    return [(what, text) for what, text in parts if text]


def model_disks(disks: Iterable[Facts]) -> list[str]:
    """Where the files of models lie, and how much room is left there."""
    told = []
    for disk in disks:
        held = disk.get("holds")
        if held:
            free, total = disk.get("free_bytes"), disk.get("total_bytes")
            room = f", {size(free)} free of {size(total)}" if free is not None and total else ""
            over = " over the network" if disk.get("network") else ""
            told.append(f"{', '.join(held)} on {disk.get('path')} ({disk.get('filesystem')}{over}){room}")
    return told


def _gpus(gpus: Sequence[Facts]) -> list[str]:
    """What all have in common once; what only some have with their numbers."""
    found: dict[str, list[int]] = {}
    for gpu in gpus:
        for text in _of_gpu(gpu):
            found.setdefault(text, []).append(gpu["index"])
    silent = [gpu["index"] for gpu in gpus if not _of_gpu(gpu)]
    told = [
        text if len(who) == len(gpus) - len(silent) else f"{text} (GPU {ranges(who)})" for text, who in found.items()
    ]
    return [*told, f"GPU {ranges(silent)} cannot be read"] if told and silent else told


def _of_gpu(gpu: Facts) -> list[str]:
    link, best = (_link(gpu, ""), _link(gpu, "_max"))
    limit, usual = gpu.get("power_limit_w"), gpu.get("power_limit_default_w")
    power = f"power limit {limit:g} W" if limit is not None else None
    if power and usual is not None and usual != limit:
        power += f" (as made {usual:g} W)"
    narrow = bool(link and best and gpu["pcie_width"] < gpu["pcie_width_max"])
    return [
        text
        for text in (
            gpu.get("architecture"),
            gpu.get("compute_capability") and f"compute capability {gpu['compute_capability']}",
            best and f"PCIe {best}" + (f", linked at x{gpu['pcie_width']} only" if narrow else ""),
            power,
            *(_switch(gpu, name, word) for name, word in _SWITCHES),
            gpu.get("vbios") and f"VBIOS {gpu['vbios']}",
        )
        if text
    ]


_SWITCHES = (("ecc", "ECC"), ("mig", "MIG"), ("persistence", "persistence mode"))


def _switch(gpu: Facts, name: str, word: str) -> str | None:
    return None if gpu.get(name) is None else f"{word} {'on' if gpu[name] else 'off'}"


def _link(gpu: Facts, which: str) -> str | None:
    generation, width = gpu.get(f"pcie_generation{which}"), gpu.get(f"pcie_width{which}")
    return None if generation is None or width is None else f"Gen{generation} x{width}"


def _driver(facts: Facts) -> list[str]:
    told = (("driver", facts.get("driver")), ("CUDA up to", facts.get("cuda_driver")))
    return [f"{name} {value}" for name, value in told if value]


def _paths(facts: Facts) -> str:
    peers = peer_word(facts.get("peers") or ())
    return _listed([grouped(facts.get("topology") or ()), f"peer access {peers}" if peers else None], "; ")


def _numa(facts: Facts) -> str:
    by_node: dict[str, list[int]] = {}
    for gpu in facts.get("gpus") or ():
        if gpu.get("numa_node") is not None:
            by_node.setdefault(f"node{gpu['numa_node']}", []).append(gpu["index"])
    nodes: Sequence[str] = facts.get("numa") or ()
    if len(nodes) < 2:
        return ""
    told = [(text, by_node.get(text.partition(":")[0])) for text in nodes]
    return "; ".join(f"{text}, GPU {ranges(gpus)}" if gpus else text for text, gpus in told)


def _processor(facts: Facts) -> str:
    sockets, cores, caches = facts.get("sockets"), facts.get("cores"), facts.get("caches") or ()
    counted = f"{_many(sockets, 'socket')}, {_many(cores, 'core')}" if sockets and cores else None
    return _listed([counted, facts.get("cpu_architecture"), *caches])


def _many(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _system(facts: Facts) -> str:
    inside = [facts.get("container") and f"in a container ({facts['container']})"]
    machine = facts.get("virtualization")
    inside += [machine and "in a virtual machine" + (f" ({machine})" if machine != "virtual machine" else "")]
    usable, count = facts.get("available_cpus"), facts.get("cpu_count")
    limits = [
        facts.get("memory_limit_bytes") and f"memory {size(facts['memory_limit_bytes'])}",
        facts.get("cpu_limit") is not None and f"time of {facts['cpu_limit']:g} CPUs",
        facts.get("cpuset") and f"CPUs {facts['cpuset']}",
        usable and count and usable < count and not facts.get("cpuset") and f"{usable} of {count} CPUs",
    ]
    held = _listed(limits)
    swap = facts.get("swap_bytes")
    kernel = facts.get("kernel") and f"kernel {facts['kernel']}"
    return _listed([kernel, *inside, held and f"limited to {held}", swap and f"swap {size(swap)}"])


def _network(facts: Facts) -> str:
    paths: Mapping[str, Sequence[str]] = facts.get("nic_paths") or {}
    return "; ".join(_interface(one, paths.get(one["name"], ())) for one in facts.get("network") or ())


def _interface(one: Facts, paths: Sequence[str]) -> str:
    speed = one.get("speed_mbps")
    rdma = one.get("rdma") and (f"RDMA {one['rdma']}" if one["rdma"] != one["name"] else "RDMA")
    near: dict[str, list[int]] = {}
    for gpu, word in enumerate(paths):
        near.setdefault(word, []).append(gpu)
    closest = [f"{word} to GPU {ranges(gpus)}" for word, gpus in near.items() if word in ("PIX", "PXB", "PHB")]
    state = one.get("state") if one.get("state") not in ("up", "active") else None
    told = [speed and f"{speed / 1000:g} Gb/s", one.get("driver"), rdma, one.get("link"), state, *closest]
    return " ".join([one["name"], _listed(told)]).strip()


def _listed(parts: Iterable[Any], between: str = ", ") -> str:
    return between.join(str(part) for part in parts if part)
