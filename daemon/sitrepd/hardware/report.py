"""What hosts say in a checkpoint: what they consist of, and the latest reading of each GPU."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlmodel import col, select

from sitrepd import reporting as r
from sitrepd.hardware import newest
from sitrepd.hardware.box import described, model_disks
from sitrepd.hardware.live import ASKING
from sitrepd.hardware.models import Host
from sitrepd.hardware.models import HostSnapshot as SnapshotRow
from sitrepd.hardware.ranges import ranges
from sitrepd.sections import Report, Section

_COLUMNS = (
    "id", "name", "os", "cpu", "cpu_count", "memory_bytes", "gpus", "interconnect", "disks", "numa", "note", "at",
    "provenance",
)  # fmt: skip
_PASSING = ("free_bytes", "holds")
_NAMED_BY = (("launch", "host_id"), ("artifact", "host_id"), ("stack", "host_id"))


def report(report: Report) -> list[Section]:
    """Section `hardware`: the session's own hosts and those that its facts name; else the machine that we observe.

    Of an imported session that names no host, none is known: it may have run anywhere.
    """
    numbers = {number for word, field in _NAMED_BY for number in r.linked(report, word, field)}
    mine = (col(Host.session_id) == report.session_id) | col(Host.id).in_(numbers)
    found = sorted(r.rows(report, "host", _COLUMNS, mine, everywhere=True), key=lambda row: row.id)
    if not found and report.session.imported_from is None:
        found = r.rows(report, "host", _COLUMNS, col(Host.machine).is_not(None), everywhere=True)
    items = [host_item(row) for row in found]
    items += [part for row in found for part in _box(report, row)]
    items += _unreadable(report, found)
    items += [reading for row in found for reading in _readings(report, row)]
    return [Section(name="hardware", title="Hardware", order=120, priority=45, items=items, more="sitrep host list")]


def _box(report: Report, row: Any) -> Iterable[dict[str, Any]]:
    """What the machine consists of as it was last seen, and where models lie: free space makes no new checkpoint."""
    newest = select(SnapshotRow.data).where(SnapshotRow.host_id == row.id).order_by(col(SnapshotRow.id).desc())
    facts = report.db.exec(newest.limit(1)).first()
    shared = {"kind": "box", "ids": [f"H{row.id}"], "host": f"H{row.id}"}
    for what, text in described(facts or {}):
        yield shared | {"what": what, "text": text, "priority": 47}
    disks = row.disks if facts and isinstance(row.disks, list) else []
    for text in model_disks(disks):
        yield shared | {"what": "model files", "text": text, "priority": 46, "volatile": True}


def _unreadable(report: Report, found: Sequence[Any]) -> Iterable[dict[str, Any]]:
    """That the GPUs of this machine cannot be read at the moment, and why."""
    live = report.live.get("hardware")
    if live is None or live.reason is None or live.reason == ASKING:
        return
    for row in found:
        if row.id == live.host_id and row.gpus:
            item = {
                "kind": "unreadable",
                "ids": [f"H{row.id}"],
                "what": "GPUs that cannot be read",
                "host": f"H{row.id}",
            }
            yield item | {"reason": live.reason, "volatile": True, "priority": 46}


def host_item(row: Any) -> dict[str, Any]:
    return {"kind": "host", "id": f"H{row.id}", "ids": [f"H{row.id}"], "name": row.name} | r.present(
        os=row.os,
        cpu=row.cpu,
        cpu_count=row.cpu_count,
        memory_bytes=row.memory_bytes,
        gpus=row.gpus,
        gpu_groups=gpu_groups(row.gpus or []),
        interconnect=row.interconnect,
        disks=_lasting(row.disks),
        note=row.note,
    )


def _lasting(disks: Any) -> Any:
    """Disks without the space that is free on them, which passes by itself."""
    if not isinstance(disks, list):
        return disks
    return [{k: v for k, v in disk.items() if k not in _PASSING} if isinstance(disk, dict) else disk for disk in disks]


def gpu_groups(gpus: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """GPUs of one kind told once: how many, and their indices."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for gpu in gpus:
        key = (gpu.get("name"), gpu.get("memory_bytes"), gpu.get("pcie"), gpu.get("architecture"))
        groups.setdefault(key, []).append(gpu.get("index", 0))
    return [
        {"count": len(indices), "indices": ranges(indices)}
        | r.present(name=name, memory_bytes=memory, pcie=pcie, architecture=architecture)
        for (name, memory, pcie, architecture), indices in groups.items()
    ]


def _readings(report: Report, host: Any) -> Iterable[dict[str, Any]]:
    """One seek in the key of the samples for each GPU, however many samples there are."""
    for gpu in host.gpus or []:
        sample = newest.latest(report.db, host.id, gpu.get("index", 0))
        if sample is not None:
            yield reading_item(f"H{host.id}", sample)


def reading_item(host: str, sample: Any) -> dict[str, Any]:
    """The moment's figures make no new checkpoint."""
    names = ("utilization", "memory_used_bytes", "power_w", "temperature_c", "sm_clock_mhz", "throttle")
    return {
        "kind": "reading", "ids": [host], "host": host, "gpu": sample.gpu, "volatile": True, "priority": 48,
        "live": r.present(at=r.when(sample.at), **{name: getattr(sample, name) for name in names}),
    }  # fmt: skip
