"""What is known of this machine's GPUs from moment to moment, and is not worth a row."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sitrepd.hardware.gpus import GpuFacts, GpuProcess, GpuSample

ASKING = "the NVIDIA driver is being asked for the first time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """A process on a GPU; `launch_id` is the launch that it belongs to, of this host, ended ones included."""

    process: GpuProcess
    launch_id: int | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveHardware:
    """`runtime.live["hardware"]`; `reason` says why there are no GPUs, or why `samples` are those of `at` and no newer.

    Only a sample without a reason of its own holds values.
    """

    host_id: int | None = None
    at: datetime | None = None
    reason: str | None = ASKING
    driver: str | None = None
    cuda_driver: str | None = None
    facts: tuple[GpuFacts, ...] = ()
    samples: tuple[GpuSample, ...] = ()
    processes: tuple[Owned, ...] = ()
    processes_at: datetime | None = None
