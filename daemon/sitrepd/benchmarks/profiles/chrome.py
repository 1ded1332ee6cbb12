"""Traces of the PyTorch profiler (Kineto's Chrome format), read event by event."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import IO, Any

from sitrepd.benchmarks.profiles.found import Found, ProfileError
from sitrepd.benchmarks.profiles.lanes import Lanes

_ON_GPU = frozenset({"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"})
_ON_CPU = frozenset({"cpu_op", "operator", "cuda_runtime", "cuda_driver", "runtime", "user_annotation"})
_BUSY = _ON_CPU - {"user_annotation"}
_NAMED = {"gpu_user_annotation": "GPU", "user_annotation": "CPU"}
# ProfilerStep#12, step[DECODE bs=4 toks=812]: one phase, however often.
_NUMBER = re.compile(r"#\d+$|(?<=\w) (?!bs=)\w+=[\d.]+")


def read_trace(file: IO[bytes], name: str) -> Found:
    """The whole of it is never in memory; of each event its times are."""
    lanes, count = Lanes(), 0
    for event in _events(file, name):
        if isinstance(event, dict) and event.get("ph") == "X":
            count += _take(lanes, event)
    if not count:
        raise ProfileError(f"{name} has no events of a GPU or of operators: it is no trace of the PyTorch profiler.")
    return lanes.found("PyTorch profiler")


def _events(file: IO[bytes], name: str) -> Iterator[Any]:
    import ijson

    head = file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    file.seek(0)
    try:
        yield from ijson.items(file, "item" if head == b"[" else "traceEvents.item", use_float=True)
    except (ijson.JSONError, UnicodeDecodeError) as error:
        why = str(error).partition("\n")[0].strip()
        if "premature" in why or "ncomplete" in why:
            raise ProfileError(f"{name} is cut short, as when the profiler was ended while it wrote.") from error
        raise ProfileError(f"{name} is no JSON: {why}.") from error


def _take(lanes: Lanes, event: Mapping[str, Any]) -> int:
    """1 if it was counted."""
    kind = str(event.get("cat", "")).lower()
    start, length, name = event.get("ts"), event.get("dur"), event.get("name")
    if not (isinstance(start, int | float) and isinstance(length, int | float) and isinstance(name, str)) or length < 0:
        return 0
    end = start + length
    if kind in _ON_GPU:
        about = event.get("args")
        about = about if isinstance(about, dict) else {}
        device = about.get("device", event.get("pid"))
        lanes.on_gpu(name, device, about.get("stream", event.get("tid")), start, end)
        return 1
    where = _NAMED.get(kind)
    if where is not None:
        lanes.named(where, _NUMBER.sub("", name), start, end)
    if kind in _ON_CPU:
        label = _NUMBER.sub("", name) if kind == "user_annotation" else name
        lanes.on_cpu(label, (event.get("pid"), event.get("tid")), start, end, kind in _BUSY)
    return int(kind in _ON_CPU or where is not None)
