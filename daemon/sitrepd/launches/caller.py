"""What a launch takes over from whoever asks for it, as plain JSON."""

from __future__ import annotations

import os
import resource
from typing import TypedDict


class CallerContext(TypedDict):
    """The surroundings of a process; `env` has secrets in it and is not to be stored as it is."""

    cwd: str
    env: dict[str, str]
    umask: int
    limits: dict[str, tuple[int, int]]
    nice: int
    affinity: list[int]


def caller_context() -> CallerContext:
    """The surroundings of this process (that of the CLI, then sent along with the request)."""
    return {
        "cwd": os.getcwd(),
        "env": dict(os.environ),
        "umask": _umask(),
        "limits": caller_limits(),
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "affinity": sorted(os.sched_getaffinity(0)),
    }


def caller_limits() -> dict[str, tuple[int, int]]:
    """Soft and hard limits by resource name (`nofile`, `memlock`, …), -1 for unlimited."""
    names = {name.removeprefix("RLIMIT_").lower() for name in dir(resource) if name.startswith("RLIMIT_")} - {"ofile"}
    return {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}")) for name in sorted(names)}


def _umask() -> int:
    """Read without setting it, which other threads would notice."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1], 8) for line in file if line.startswith("Umask:"))
