"""GPU memory that other processes hold."""

from __future__ import annotations

import math
import re

from sitrepd.launches.diagnosis.case import Case, Rule
from sitrepd.launches.diagnosis.rules._make import rule

_OTHER = re.compile(r"Process (\d+) has ([\d.]+) ([GM]iB) memory in use")
_CAPACITY = re.compile(r"total capacity of ([\d.]+) GiB")
_ALLOCATED = re.compile(r"([\d.]+) ([GM]iB) is allocated by PyTorch")
_OWN = re.compile(r"this process has ([\d.]+) ([GM]iB) memory in use")
_FOREIGN_SHARE = 0.10
_CONTEXT_GIB = 3.0
_LEAST_TOLD_GIB = 0.5
_FREE_AT_START = re.compile(
    r"Free\s+memory\s+on\s+device(?:\s+\S+)?\s+\((?P<free>[\d.]+)/(?P<all>[\d.]+)\s+GiB\)\s+on\s+startup\s+is\s+less"
)
_OF_SHARE = "less than desired GPU memory utilization"
_LEAST_SHARE = 0.1
"""No weights of use fit into less."""
_LOOK = "nvidia-smi --query-compute-apps=pid,used_memory,name --format=csv; end what is left over"


def is_occupied(case: Case) -> bool:
    """Whether memory that ran out was not the launch's own to have."""
    return (
        (_others_hold_much(case) and case.stage in ("", "load", "kv", "capture"))
        or _little_at_begin(case)
        or (case.stage == "" and case.incident.phase == "dist_init")
    )


def cause(case: Case) -> str:
    held = ", ".join(f"process {pid} {size:.1f} GiB" for pid, size in _worth_telling(case))
    return f"Before this server had loaded, others held the memory: {held or 'little was free at the begin'}."


def fix(case: Case) -> str:
    pids = " ".join(pid for pid, _ in _worth_telling(case))
    return f"{_LOOK}{': kill ' + pids if pids else ' by its pid'}."


def _worth_telling(case: Case) -> list[tuple[str, float]]:
    return [(pid, size) for pid, size in _others(case) if size > _LEAST_TOLD_GIB]


def _gib(value: str, unit: str) -> float:
    return float(value) / (1 if unit == "GiB" else 1024)


def _others(case: Case) -> list[tuple[str, float]]:
    """Processes beside this one; in a container its own number is another, so one that fits its size is left out."""
    others = [(pid, _gib(size, unit)) for pid, size, unit in _OTHER.findall(case.text)]
    if _OWN.search(case.text):
        return others
    own = _ALLOCATED.search(case.text)
    used = _gib(*own.groups()) if own else 0.0
    rest = sorted(others, key=lambda one: abs(one[1] - used))
    if not rest:
        return []
    capacity = _CAPACITY.search(case.text)
    # Two processes cannot hold more than there is: then it is this one, under the number it has outside.
    too_much = capacity is not None and rest[0][1] + used > float(capacity[1])
    return rest[1:] if len(rest) > 1 or rest[0][1] - used < _CONTEXT_GIB or too_much or not own else rest


def _others_hold_much(case: Case) -> bool:
    """Whether processes other than the launch's own hold much of the GPU that ran out."""
    capacity = _CAPACITY.search(case.text)
    held = sum(size for _, size in _others(case))
    return capacity is not None and held > _FOREIGN_SHARE * float(capacity[1])


def _little_at_begin(case: Case) -> bool:
    """Whether less than half of the GPU was free when the first weights were to be loaded."""
    capacity = _CAPACITY.search(case.text)
    begin = case.known.settings.get("_first_avail_gib")
    return bool(
        capacity and begin is not None and begin < 0.5 * float(capacity[1]) and case.stage in ("", "load", "kv")
    )


def _start_cause(case: Case) -> str:
    if found := _FREE_AT_START.search(case.text):
        return (
            f"At the start only {found['free']} of {found['all']} GiB were free, less than the share that was "
            "asked for: something else is on the GPU, or a desktop, or the share is too large."
        )
    if _OF_SHARE in case.text:
        return "At the start less was free than the share that was asked for: something else is on the GPU."
    return (
        "The GPUs do not have the same free memory at the start: something else, often a leftover of an earlier "
        "server, is on one."
    )


def _start_fix(case: Case) -> str:
    look = f"{_LOOK} by its pid"
    found = _FREE_AT_START.search(case.text)
    if found and float(found["all"]):
        fits = math.floor(100 * float(found["free"]) / float(found["all"]) - 0.5) / 100
        if fits >= _LEAST_SHARE:
            return f"{look}; or --gpu-memory-utilization {fits:g}, which fits into what is free."
    if _OF_SHARE in case.text:
        return f"{look}."
    return f"{look}; GPUs of different sizes: SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK=0."


RULES: tuple[Rule, ...] = (
    rule(
        "gpu_occupied",
        r"memory capacity is unbalanced|[Ss]ome GPUs may be occupied"
        r"|on startup is less than desired|less than desired GPU memory utilization|initial free memory"
        r"|Error in memory profiling",
        "Another process holds memory of a GPU",
        _start_cause,
        _start_fix,
    ),
)
