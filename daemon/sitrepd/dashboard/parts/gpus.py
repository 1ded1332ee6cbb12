"""GPUs: a tile each, with what the driver last told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlmodel import Session, and_, col, func, select

from sitrepd.dashboard import words
from sitrepd.dashboard.view import View
from sitrepd.hardware.models import GpuSample, Host

_STALE_S = 60.0


@dataclass(frozen=True)
class Tile:
    """One GPU; what it does not tell is "–", and `key` names its elements in the page."""

    key: str
    index: int
    name: str
    pcie: str
    utilization: float | None
    memory: float | None
    utilization_text: str
    memory_text: str
    power: str
    temperature: str
    throttle: str

    def values(self) -> dict[str, str | float | None]:
        """By the names that the page's elements carry in `data-live`."""
        return {
            f"{self.key}.utilization": self.utilization,
            f"{self.key}.memory": self.memory,
            f"{self.key}.utilization-text": self.utilization_text,
            f"{self.key}.memory-text": self.memory_text,
            f"{self.key}.power": self.power,
            f"{self.key}.temperature": self.temperature,
            f"{self.key}.throttle": self.throttle,
        }


def look(view: View) -> dict[str, Any]:
    """Hosts that are observed, and those that were only told of."""
    hosts = hosts_of(view.db, view.session_id)
    observed = [row for row in hosts if row.machine]
    samples = latest(view.db)
    told = [row for row in hosts if not row.machine and row.gpus]
    return {
        "hosts": [(f"H{row.id}", row, tiles(row, samples, view.now)) for row in observed],
        "told": [(f"H{row.id}", row, _alike(row.gpus)) for row in told],
    }


def hosts_of(db: Session, session_id: int | None) -> Sequence[Host]:
    owner = col(Host.session_id)
    mine = owner.is_(None) if session_id is None else owner.is_(None) | (owner == session_id)
    return db.exec(select(Host).where(mine).order_by(col(Host.id))).all()


def latest(db: Session) -> dict[tuple[int, int], GpuSample]:
    """The last reading of each GPU, by (host, index)."""
    last = select(GpuSample.host_id, GpuSample.gpu, func.max(GpuSample.at).label("at"))
    newest = last.group_by(col(GpuSample.host_id), col(GpuSample.gpu)).subquery()
    table = GpuSample
    same = and_(col(table.host_id) == newest.c.host_id, col(table.gpu) == newest.c.gpu, col(table.at) == newest.c.at)
    return {(row.host_id, row.gpu): row for row in db.exec(select(table).join(newest, same)).all()}


def tiles(host: Host, samples: dict[tuple[int, int], GpuSample], now: datetime) -> list[Tile]:
    return [_tile(host, gpu, samples.get((host.id or 0, gpu["index"])), now) for gpu in host.gpus]


def _tile(host: Host, gpu: dict[str, Any], sample: GpuSample | None, now: datetime) -> Tile:
    if sample is None or (now - sample.at).total_seconds() > _STALE_S:
        sample = GpuSample(host_id=host.id or 0, gpu=gpu["index"], at=now)
    used, total = sample.memory_used_bytes, gpu.get("memory_bytes")
    utilization = sample.utilization
    return Tile(
        key=f"H{host.id}.{gpu['index']}",
        index=gpu["index"],
        name=gpu["name"],
        pcie=gpu.get("pcie") or "",
        utilization=None if utilization is None else utilization / 100,
        memory=used / total if used is not None and total else None,
        utilization_text="–" if utilization is None else f"{utilization:.0f} %",
        memory_text=_memory(used, total),
        power="–" if sample.power_w is None else f"{sample.power_w:.0f} W",
        temperature="–" if sample.temperature_c is None else f"{sample.temperature_c:.0f} °C",
        throttle=sample.throttle or "",
    )


def _memory(used: int | None, total: int | None) -> str:
    if used is None:
        return f"– / {words.gib(total)} GiB" if total else "–"
    return f"{words.gib(used)} / {words.gib(total)} GiB" if total else f"{words.gib(used)} GiB"


def _alike(gpus: Sequence[dict[str, Any]]) -> str:
    """8 × NVIDIA H200, 1 × …"""
    names: dict[str, int] = {}
    for gpu in gpus:
        names[gpu["name"]] = names.get(gpu["name"], 0) + 1
    return ", ".join(f"{many} × {name}" for name, many in names.items())
