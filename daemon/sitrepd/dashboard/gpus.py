"""The page of this machine's GPUs: how each is now, what all of them did, and what the machine consists of."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query
from sqlmodel import Session
from starlette.responses import Response

from sitrepd import facts
from sitrepd.dashboard.looking import common, for_people, page_of, view_of
from sitrepd.dashboard.parts import PARTS
from sitrepd.dashboard.parts import gpus as part
from sitrepd.dashboard.view import View
from sitrepd.dashboard.words import seconds_text
from sitrepd.hardware import snapshots, spans
from sitrepd.hardware.bands import bands
from sitrepd.hardware.box import described, model_disks
from sitrepd.hardware.meaning import Figures, GpuSummary
from sitrepd.hardware.models import Host
from sitrepd.hardware.ranges import ranges
from sitrepd.hardware.snapshot import HostSnapshot
from sitrepd.routing import RuntimeDep
from sitrepd.runtime import Runtime
from sitrepd.storage import events

router = APIRouter(include_in_schema=False)
LENGTHS = (
    ("15m", "15 min", 900), ("1h", "1 h", 3600), ("6h", "6 h", 6 * 3600), ("24h", "24 h", 86400),
    ("7d", "7 days", 7 * 86400), ("30d", "30 days", 30 * 86400),
)  # fmt: skip
CHARTS = (
    ("utilization", "Use: part of the time in which a kernel ran", "%"),
    ("memory_used_bytes", "Memory in use", "GiB"),
    ("power_w", "Power", "W"),
    ("sm_clock_mhz", "Clock of the multiprocessors", "MHz"),
    ("temperature_c", "Temperature", "°C"),
    ("throttled", "Part of the time in which power, heat or a fault held the clocks down", "%"),
)
_USUAL = "15m"


@router.get("/gpus")
def gpus_page(runtime: RuntimeDep, length: Annotated[str, Query(alias="range", max_length=10)] = _USUAL) -> Response:
    """A length that there is not is taken as the usual one."""
    seconds = {word: seconds for word, _, seconds in LENGTHS}
    chosen = length if length in seconds else _USUAL

    def look(db: Session) -> Response:
        view = view_of(runtime, db, None)
        context = {"length": chosen, "seconds": seconds[chosen], "lengths": LENGTHS, "charts": CHARTS}
        context |= _machine(db, runtime.host_id) | _now(view)
        context["bands"] = _bands(db, runtime, view, seconds[chosen])
        return page_of(runtime, "gpus", event=events.last_event_id(db), **common(view), **context)

    return for_people(runtime, look)


@router.get("/gpus/now")
def now_part(runtime: RuntimeDep) -> Response:
    """The tiles alone, for HTMX."""

    def look(db: Session) -> Response:
        view = view_of(runtime, db, None)
        return page_of(runtime, "parts/gpus", **common(view), **_now(view))

    return for_people(runtime, look)


@router.get("/f/{fact_id}/gpus")
def meaning_part(fact_id: str, runtime: RuntimeDep) -> Response:
    """What the GPUs of a launch or a benchmark did; nothing where that is not known. A long life takes a moment."""

    def look(db: Session) -> Response:
        span = _span(db, runtime, fact_id)
        summary = spans.summary_of(db, span) if span else None
        rows = [_row(gpu) for gpu in summary.gpus] if summary else []
        titles = [title for _, title, _ in _MEANT]
        return page_of(runtime, "parts/meaning", summary=summary, rows=rows, titles=titles)

    return for_people(runtime, look)


def _span(db: Session, runtime: Runtime, fact_id: str) -> spans.Span | None:
    by_word = runtime.registry.by_word
    if fact_id.startswith("B"):
        return spans.of_benchmark(db, facts.get(db, by_word["benchmark"], fact_id))
    return spans.of_launch(facts.get(db, by_word["launch"], fact_id))


_MEANT = (
    ("utilization", "Use, %", 1.0), ("memory_used_bytes", "Memory, GiB", 2.0**-30), ("power_w", "Power, W", 1.0),
    ("sm_clock_mhz", "Clock, MHz", 1.0), ("temperature_c", "Heat, °C", 1.0),
)  # fmt: skip


def _row(gpu: GpuSummary) -> tuple[int, list[str], str]:
    cells = [_cell(gpu.metrics.get(name), factor) for name, _, factor in _MEANT]
    held = ", ".join(f"{word} {seconds_text(seconds)}" for word, seconds in gpu.throttled_s.items())
    return gpu.index, cells, held


def _cell(found: Figures | None, factor: float) -> str:
    """94.2 (90 to 97)"""
    if found is None:
        return "–"
    mean, low, high = (factor * value for value in (found.mean, found.p5, found.p95))
    return f"{mean:.0f} ({low:.0f} to {high:.0f})"


def _now(view: View) -> dict[str, Any]:
    """Without the hosts that were only told of, which belong to sessions."""
    return {"part": PARTS["gpus"], "alone": True, **part.look(view), "told": ()}


def _bands(db: Session, runtime: Runtime, view: View, seconds: int) -> list[tuple[Any, str]]:
    since = view.now - timedelta(seconds=seconds)
    found = bands(db, runtime.host_id or 0, since, view.now, runtime.live.get("benchmarks_running") or ())
    newest = sorted(found, key=lambda band: band.since, reverse=True)
    return [(band, ranges(band.gpus) if band.gpus else "all") for band in newest]


def _machine(db: Session, host_id: int | None) -> dict[str, Any]:
    seen = snapshots.last(db, host_id) if host_id else None
    if seen is None:
        return {"box": [], "matrix": [], "indices": []}
    facts: Mapping[str, Any] = seen.model_dump(mode="json")
    first = [
        ("host", f"{seen.name}, {seen.os}"),
        ("CPU", seen.cpu or ""),
        ("memory", f"{seen.memory_bytes / 2**30:.0f} GiB"),
    ]
    told = [(what, text) for what, text in [*first, *described(facts)] if text]
    host = db.get(Host, host_id)
    disks = host.disks if host is not None and isinstance(host.disks, list) else ()
    told += [("model files", text) for text in model_disks(disks)]
    indices = [gpu.index for gpu in seen.gpus]
    return {"box": told, "matrix": _matrix(seen, indices), "indices": indices}


def _matrix(seen: HostSnapshot, indices: list[int]) -> list[tuple[str, tuple[str, ...]]]:
    """As `nvidia-smi topo -m` has it, network interfaces below."""
    rows = [(f"GPU {index}", row) for index, row in zip(indices, seen.topology, strict=False)]
    return rows + list(seen.nic_paths.items()) if rows else []
