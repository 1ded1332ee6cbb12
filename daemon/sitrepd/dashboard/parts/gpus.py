"""GPUs: a tile each, with what the driver last told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlmodel import col, select

from sitrepd.dashboard import words
from sitrepd.dashboard.view import View
from sitrepd.hardware.gpus import GpuFacts, GpuSample
from sitrepd.hardware.live import LiveHardware, Owned
from sitrepd.hardware.models import Host
from sitrepd.hardware.state import State, state_of

_UNKNOWN = "–"
_MOST_OWNERS = 4


@dataclass(frozen=True)
class Tile:
    """One GPU; what it does not tell is "–"."""

    index: int
    name: str
    utilization: float | None
    memory: float | None
    utilization_text: str
    memory_text: str
    power: str
    temperature: str
    state: str
    notice: str
    owners: Sequence[tuple[str, str]]

    def values(self) -> dict[str, str | float | None]:
        """By the names that the page's elements carry in `data-live`."""
        key = f"gpu{self.index}"
        return {
            f"{key}.utilization": self.utilization,
            f"{key}.memory": self.memory,
            f"{key}.utilization-text": self.utilization_text,
            f"{key}.memory-text": self.memory_text,
            f"{key}.power": self.power,
            f"{key}.temperature": self.temperature,
            f"{key}.state": self.state,
            f"{key}.notice": self.notice,
        }


def look(view: View) -> dict[str, Any]:
    """The GPUs of this machine, and hosts that were only told of."""
    now = view.live.get("hardware")
    known = now if isinstance(now, LiveHardware) else LiveHardware(reason="the GPUs are not observed")
    host = view.db.get(Host, known.host_id) if known.host_id else None
    return {
        "host": host,
        "what": describe(known),
        "reason": _sentence(known.reason),
        "tiles": tiles(known, view.live.get("gpu_leaks")),
        "told": [(f"H{row.id}", row, _counted(gpu["name"] for gpu in row.gpus)) for row in _told(view)],
    }


def _told(view: View) -> Sequence[Host]:
    mine = col(Host.session_id) == view.session_id
    return [row for row in view.db.exec(select(Host).where(mine)).all() if row.gpus and not row.machine]


def tiles(known: LiveHardware, leaks: Mapping[str, str] | None = None) -> list[Tile]:
    samples = {sample.index: sample for sample in known.samples}
    alike = len({_kind(gpu) for gpu in known.facts if gpu.name}) == 1
    told = []
    for gpu in known.facts:
        sample = samples.get(gpu.index)
        state = state_of(gpu, sample, known.reason, (leaks or {}).get(gpu.uuid or "", ""))
        told.append(_tile(gpu, sample, state, known.processes, alike))
    return told


def composition(known: LiveHardware | None) -> tuple[Any, ...]:
    """What is drawn anew when it changes: which GPUs there are and who is on them; values move by themselves."""
    if known is None:
        return ()
    owners = sorted((one.process.index, one.process.pid, one.launch_id or 0) for one in known.processes)
    return (known.host_id, known.reason, tuple(_kind(gpu) for gpu in known.facts), tuple(owners))


def describe(known: LiveHardware) -> str:
    """What the GPUs are, where they are alike: 8 × NVIDIA H200, 140.4 GiB each, Gen5 x16; driver 580.95."""
    parts = [_counted(gpu.name or "unknown GPU" for gpu in known.facts)] if known.facts else []
    if len({_kind(gpu) for gpu in known.facts}) == 1:
        first = known.facts[0]
        if first.memory_bytes:
            parts.append(f"{words.gib(first.memory_bytes)} GiB{' each' if len(known.facts) > 1 else ''}")
        if first.pcie:
            parts.append(f"PCIe {first.pcie}")
    if known.driver:
        parts.append(f"driver {known.driver}")
    if known.cuda_driver:
        parts.append(f"CUDA {known.cuda_driver}")
    return ", ".join(parts)


def _kind(gpu: GpuFacts) -> tuple[Any, ...]:
    return gpu.name, gpu.memory_bytes, gpu.pcie, gpu.reason is None


def _tile(gpu: GpuFacts, sample: GpuSample | None, state: State, processes: Sequence[Owned], alike: bool) -> Tile:
    now = sample or GpuSample(gpu.index, gpu.uuid or "")
    used, total = now.memory_used_bytes, now.memory_total_bytes or gpu.memory_bytes
    use = now.utilization_percent
    return Tile(
        index=gpu.index,
        name="" if alike else _one(gpu),
        utilization=None if use is None else use / 100,
        memory=used / total if used is not None and total else None,
        utilization_text=_UNKNOWN if use is None else f"{use} %",
        memory_text=_UNKNOWN if used is None else f"{words.gib(used)} GiB",
        power=_UNKNOWN if now.power_w is None else f"{now.power_w:.0f} W",
        temperature=_UNKNOWN if now.temperature_c is None else f"{now.temperature_c} °C",
        state=state.word,
        notice=state.why,
        owners=_owners([one for one in processes if one.process.index == gpu.index]),
    )


def _one(gpu: GpuFacts) -> str:
    memory = f"{words.gib(gpu.memory_bytes)} GiB" if gpu.memory_bytes else ""
    return ", ".join(part for part in (gpu.name or "unknown GPU", memory, gpu.pcie) if part)


def _owners(processes: Sequence[Owned]) -> list[tuple[str, str]]:
    """(launch or process, memory) of those that hold the most."""
    largest = sorted(processes, key=lambda one: -(one.process.used_bytes or 0))
    told = [
        (
            f"L{one.launch_id}" if one.launch_id else f"{one.name or 'process'} {one.process.pid}",
            f"{words.gib(one.process.used_bytes)} GiB" if one.process.used_bytes else "",
        )
        for one in largest[:_MOST_OWNERS]
    ]
    more = len(largest) - len(told)
    return [*told, (f"{more} more", "")] if more else told


def _counted(names: Any) -> str:
    """8 × NVIDIA H200, 1 × …"""
    told: dict[str, int] = {}
    for name in names:
        told[name] = told.get(name, 0) + 1
    return ", ".join(f"{many} × {name}" for name, many in told.items())


def _sentence(text: str | None) -> str:
    return "" if not text else f"{text[:1].upper()}{text[1:].rstrip('.')}."
