"""The processor: its model, sockets and cores, and its caches."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import psutil

from sitrepd.hardware.files import read

_KINDS = {"Data": "d", "Instruction": "i"}


def cpu_model(cpuinfo: str) -> str | None:
    """Arm's kernels print no model name."""
    match = re.search(r"^(?:model name|Model|cpu model)\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    return " ".join(match[1].split()) if match else None


def sockets_and_cores(cpuinfo: str) -> tuple[int | None, int | None]:
    seen = set()
    for block in cpuinfo.split("\n\n"):
        physical = re.search(r"^physical id\s*:\s*(\d+)", block, re.MULTILINE)
        core = re.search(r"^core id\s*:\s*(\d+)", block, re.MULTILINE)
        if physical and core:
            seen.add((physical[1], core[1]))
    return (len({physical for physical, _ in seen}), len(seen)) if seen else (None, psutil.cpu_count(logical=False))


def caches(root: Path = Path("/")) -> tuple[str, ...]:
    """One "L3 256 MiB × 2" a kind of cache, in order; a cache that several processors share counts once."""
    found: dict[tuple[str, str], set[str]] = {}
    for folder in _cache_folders(root / "sys/devices/system/cpu"):
        level, kind, size = (read(folder / name) for name in ("level", "type", "size"))
        if level and size:
            name = f"L{level}{_KINDS.get(kind or '', '')}"
            shared = read(folder / "shared_cpu_list") or str(folder)
            found.setdefault((name, _size(size)), set()).add(shared)
    return tuple(f"{name} {size} × {len(shared)}" for (name, size), shared in sorted(found.items()))


def _cache_folders(cpus: Path) -> Iterable[Path]:
    """A core's caches are read at its first thread alone: a machine may have 384 threads."""
    for cpu in cpus.glob("cpu[0-9]*"):
        siblings = read(cpu / "topology/thread_siblings_list")
        if siblings and re.split(r"[,-]", siblings)[0] != cpu.name[3:]:
            continue
        yield from (cpu / "cache").glob("index[0-9]*")


def _size(text: str) -> str:
    """Linux writes 32768K."""
    kib = int(text[:-1]) if text.endswith("K") and text[:-1].isdigit() else None
    if kib is None:
        return text
    return f"{kib / 1024:g} MiB" if kib >= 1024 else f"{kib} KiB"
