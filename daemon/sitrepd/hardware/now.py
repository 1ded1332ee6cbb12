"""The GPUs of this host at this moment, as the API tells them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from sitrepd.hardware.gpus import GpuFacts, GpuSample
from sitrepd.hardware.live import LiveHardware
from sitrepd.hardware.state import state_of
from sitrepd.storage import ids


class GpuProcessOut(BaseModel):
    """A process that holds memory of a GPU; `launch` is the one that it belongs to, if any."""

    pid: int
    name: str | None = None
    kind: str
    used_bytes: int | None = None
    launch: str | None = None


class GpuNow(BaseModel):
    """A GPU with its latest values; `reason` says why it has none."""

    index: int
    name: str | None = None
    uuid: str | None = None
    state: str = Field("unknown", description="idle, busy, throttling, leaking, broken, or unknown.")
    why: str | None = Field(None, description="Why it is in that state, where the word does not say it all.")
    utilization_percent: int | None = None
    memory_utilization_percent: int | None = None
    memory_used_bytes: int | None = None
    memory_reserved_bytes: int | None = None
    memory_total_bytes: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: int | None = None
    memory_temperature_c: int | None = None
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    perf_state: str | None = None
    throttled: bool | None = Field(None, description="Whether power, heat or a fault holds the clocks down.")
    throttle: list[str] = Field(default_factory=list, description="What holds the clocks down.")
    pcie: str | None = Field(None, description="The best link that it can have.")
    pcie_width: int | None = Field(None, description="Lanes of its link as it is.")
    ecc_corrected: int | None = Field(None, description="Errors of its memory since the driver was loaded.")
    ecc_uncorrected: int | None = None
    remapped_rows: int | None = Field(None, description="Rows of its memory that were replaced.")
    remap_pending: bool | None = Field(None, description="Whether a row is replaced at the next reset.")
    remap_failed: bool | None = None
    pcie_replays: int | None = Field(None, description="Packets that its link sent again.")
    reason: str | None = None
    processes: list[GpuProcessOut] = Field(default_factory=list)


class GpusNow(BaseModel):
    """The GPUs of this host; `reason` says why there are none, or why the values are no newer than `at`."""

    host: str | None = None
    at: datetime | None = None
    reason: str | None = None
    driver: str | None = None
    cuda_driver: str | None = Field(None, description="The newest CUDA that the driver can run.")
    processes_at: datetime | None = None
    gpus: list[GpuNow]


def gpus_now(live: LiveHardware, leaks: Mapping[str, str] | None = None) -> list[GpuNow]:
    """A GPU that has facts but no sample yet is there too."""
    samples = {sample.uuid: sample for sample in live.samples}
    known = {gpu.uuid: gpu for gpu in live.facts if gpu.uuid}
    unnamed = [_gpu(gpu, None, live, leaks) for gpu in live.facts if not gpu.uuid]
    named = [
        _gpu(known.get(uuid) or GpuFacts(samples[uuid].index, uuid=uuid), samples.get(uuid), live, leaks)
        for uuid in {**known, **samples}
    ]
    return sorted([*named, *unnamed], key=lambda gpu: (gpu.index, gpu.uuid or ""))


def _gpu(gpu: GpuFacts, sample: GpuSample | None, live: LiveHardware, leaks: Mapping[str, str] | None) -> GpuNow:
    reason = sample.reason if sample else gpu.reason
    told: dict[str, Any] = {
        name: getattr(sample, name)
        for name in GpuSample.__slots__
        if sample is not None and name in GpuNow.model_fields
    }
    told |= {"index": sample.index if sample else gpu.index, "name": gpu.name, "uuid": gpu.uuid, "reason": reason}
    told["memory_total_bytes"] = told.get("memory_total_bytes") or gpu.memory_bytes
    if sample is not None:
        told |= {"throttled": sample.throttled, "throttle": list(sample.throttle)}
    state = state_of(gpu, sample, live.reason, (leaks or {}).get(gpu.uuid or "", ""))
    told |= {"state": state.word, "why": state.why or None, "pcie": gpu.pcie, "pcie_width": gpu.pcie_width}
    return GpuNow(**told, power_limit_w=gpu.power_limit_w, processes=_processes(gpu.uuid, live))


def _processes(uuid: str | None, live: LiveHardware) -> list[GpuProcessOut]:
    return [
        GpuProcessOut(
            pid=owned.process.pid,
            name=owned.name,
            kind=owned.process.kind,
            used_bytes=owned.process.used_bytes,
            launch=ids.public_id("L", owned.launch_id) if owned.launch_id else None,
        )
        for owned in live.processes
        if owned.process.uuid == uuid
    ]
