"""Nsight Systems: the tables of `nsys stats --format csv`, and what `nsys export --type sqlite` writes."""

from __future__ import annotations

import csv
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from sitrepd.benchmarks.profiles.found import Found, Phase, ProfileError, clipped, largest
from sitrepd.benchmarks.profiles.kernels import category
from sitrepd.benchmarks.profiles.lanes import Lanes

_MS = {"ns": 1e-6, "us": 1e-3, "μs": 1e-3, "µs": 1e-3, "ms": 1.0, "s": 1e3, "sec": 1e3}
_COUNTS = ("Instances", "Num Calls", "Count", "Range Instances", "NVTX Inst", "Num")
_NAMES = ("Name", "Operation", "Range", "Kernel Name")
_MOST = 40
# Kinds of cudaMemcpy, as CUPTI numbers them.
_COPIES = {1: "Host-to-Device", 2: "Device-to-Host", 8: "Device-to-Device", 10: "Peer-to-Peer"}
# What was still running at the end has none.
_TIMED = "WHERE typeof(start) = 'integer' AND typeof(end) = 'integer'"
_NVTX_RANGES = (59, 60)  # push and pop, start and end


# --- nsys stats --------------------------------------------------------------------------------------------------


def is_summary(line: str) -> bool:
    """Whether this is the line of titles of one of its tables."""
    return "Total Time (" in line and "," in line


def read_summary(lines: Iterable[str], name: str) -> Found:
    """Times are summed there, so what ran beside other work counts as often."""
    phases: list[Phase] = []
    for titles, rows in _tables(lines):
        phases += _phases(titles, list(rows))
    if not phases:
        raise ProfileError(f"{name} has no rows: `nsys stats --format csv` found nothing that was recorded.")
    gpu = [phase for phase in phases if phase.group == "GPU kernels"]
    return Found("Nsight Systems", [*_categories(gpu), *phases], "Times are summed: what ran at once counts twice.")


def _tables(lines: Iterable[str]) -> Iterator[tuple[list[str], Iterable[list[str]]]]:
    """Each table ends with an empty line, or where the next begins."""
    titles: list[str] = []
    rows: list[list[str]] = []
    for row in csv.reader(lines):
        if any(cell.startswith("Total Time (") for cell in row):
            if titles:
                yield titles, rows
            titles, rows = [cell.strip() for cell in row], []
        elif titles and len(row) == len(titles):
            rows.append(row)
        elif titles and rows and not row:
            yield titles, rows
            titles, rows = [], []
    if titles:
        yield titles, rows


def _phases(titles: list[str], rows: list[list[str]]) -> list[Phase]:
    total = next(title for title in titles if title.startswith("Total Time ("))
    unit = _MS.get(total.removeprefix("Total Time (").removesuffix(")"))
    named = next((title for title in _NAMES if title in titles), None)
    counted = next((title for title in _COUNTS if title in titles), None)
    if unit is None or named is None:
        return []
    group = _group(named, counted)
    merged: dict[str, tuple[int, float]] = {}
    for row in rows:
        told = dict(zip(titles, row, strict=True))
        time, calls = _number(told[total]), _number(told[counted]) if counted else 0.0
        if time is not None and calls is not None and told[named].strip():
            before = merged.get(clipped(told[named].strip()), (0, 0.0))
            merged[clipped(told[named].strip())] = (before[0] + int(calls), before[1] + time * unit)
    whole = sum(time for _, time in merged.values())
    phases = [
        Phase(name, group, calls or None, time, time / calls if calls else None, 100 * time / whole if whole else None)
        for name, (calls, time) in merged.items()
    ]
    return largest(group, phases, _MOST, "rows")


def _group(named: str, counted: str | None) -> str:
    if named == "Range":
        return "named ranges (NVTX)"
    if named == "Operation":
        return "GPU memory operations"
    return "CUDA calls on the CPU" if counted == "Num Calls" else "GPU kernels"


def _categories(kernels: list[Phase]) -> list[Phase]:
    found: dict[str, tuple[int, float]] = {}
    for phase in kernels:
        calls, time = found.get(category(phase.name), (0, 0.0))
        found[category(phase.name)] = (calls + (phase.calls or 0), time + (phase.total_ms or 0.0))
    whole = sum(time for _, time in found.values())
    return [
        Phase(
            name, "GPU by category", calls, time, time / calls if calls else None, 100 * time / whole if whole else None
        )
        for name, (calls, time) in sorted(found.items(), key=lambda item: -item[1][1])
    ]


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


# --- the exported database ---------------------------------------------------------------------------------------


def read_database(path: Path, name: str) -> Found:
    """Row by row; kernels of a CUDA graph that was traced as a whole are one `CUDA graph`."""
    lanes = Lanes()
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as db:
            tables = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if not any(table.startswith(("CUPTI_ACTIVITY", "NVTX_EVENTS")) for table in tables):
                raise ProfileError(f"{name} is a database, but none of Nsight Systems: it has no CUPTI or NVTX tables.")
            strings = dict(db.execute("SELECT id, value FROM StringIds")) if "StringIds" in tables else {}
            for table, read in _TABLES.items():
                if table in tables:
                    columns = {row[1] for row in db.execute(f"PRAGMA table_info({table})")}
                    read(lanes, db, columns, strings)
    except sqlite3.Error as error:
        raise ProfileError(f"{name} cannot be read as an export of Nsight Systems: {error}.") from error
    if not lanes.wall:
        raise ProfileError(f"{name} has recorded nothing.")
    return lanes.found("Nsight Systems")


Strings = Mapping[int, str]


def _kernels(lanes: Lanes, db: sqlite3.Connection, columns: set[str], strings: Strings) -> None:
    name = "demangledName" if "demangledName" in columns else "shortName"
    query = f"SELECT start, end, deviceId, streamId, {name} FROM CUPTI_ACTIVITY_KIND_KERNEL {_TIMED}"
    for start, end, device, stream, key in db.execute(query):
        lanes.on_gpu(strings.get(key, f"kernel {key}"), device, stream, start / 1e3, end / 1e3)


def _copies(lanes: Lanes, db: sqlite3.Connection, _columns: set[str], _strings: Strings) -> None:
    query = f"SELECT start, end, deviceId, streamId, copyKind FROM CUPTI_ACTIVITY_KIND_MEMCPY {_TIMED}"
    for start, end, device, stream, kind in db.execute(query):
        lanes.on_gpu(f"memcpy {_COPIES.get(kind, kind)}", device, stream, start / 1e3, end / 1e3)


def _sets(lanes: Lanes, db: sqlite3.Connection, _columns: set[str], _strings: Strings) -> None:
    for start, end, device, stream in db.execute(
        f"SELECT start, end, deviceId, streamId FROM CUPTI_ACTIVITY_KIND_MEMSET {_TIMED}"
    ):
        lanes.on_gpu("memset", device, stream, start / 1e3, end / 1e3)


def _graphs(lanes: Lanes, db: sqlite3.Connection, columns: set[str], _strings: Strings) -> None:
    stream = "streamId" if "streamId" in columns else "NULL"
    query = f"SELECT start, end, deviceId, {stream}, graphId FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE {_TIMED}"
    for start, end, device, on, graph in db.execute(query):
        lanes.on_gpu(f"CUDA graph {graph}", device, on, start / 1e3, end / 1e3)


def _calls(lanes: Lanes, db: sqlite3.Connection, _columns: set[str], strings: Strings) -> None:
    query = f"SELECT start, end, nameId, globalTid FROM CUPTI_ACTIVITY_KIND_RUNTIME {_TIMED}"
    for start, end, key, thread in db.execute(query):
        # cudaLaunchKernel_v7000: the number is that of the interface.
        lanes.on_cpu(strings.get(key, f"call {key}").partition("_v")[0], thread, start / 1e3, end / 1e3)


def _ranges(lanes: Lanes, db: sqlite3.Connection, columns: set[str], strings: Strings) -> None:
    key = "textId" if "textId" in columns else "NULL"
    kinds = ", ".join(map(str, _NVTX_RANGES))
    query = f"SELECT start, end, text, {key} FROM NVTX_EVENTS {_TIMED} AND eventType IN ({kinds})"
    for start, end, text, at in db.execute(query):
        label: Any = text if text is not None else strings.get(at)
        if label:
            lanes.named("CPU", str(label), start / 1e3, end / 1e3)


_TABLES = {
    "CUPTI_ACTIVITY_KIND_KERNEL": _kernels, "CUPTI_ACTIVITY_KIND_MEMCPY": _copies, "CUPTI_ACTIVITY_KIND_MEMSET": _sets,
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": _graphs, "CUPTI_ACTIVITY_KIND_RUNTIME": _calls, "NVTX_EVENTS": _ranges,
}  # fmt: skip
