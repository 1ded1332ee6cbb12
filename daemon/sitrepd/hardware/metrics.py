"""`/metrics`: the GPUs of this machine as Prometheus wants them, with base units and names that end in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric

from sitrepd.hardware.gpus import GpuFacts, GpuSample
from sitrepd.hardware.live import LiveHardware
from sitrepd.hardware.state import STATES, states

_GPU = ("gpu", "uuid")
_MHZ = 1e6

# Name, what it is, the field of a sample, and what a base unit makes of it.
_OF_SAMPLES = (
    ("utilization_ratio", "Part of the time in which a kernel ran.", "utilization_percent", 0.01),
    ("memory_utilization_ratio", "Part of the time in which its memory was read or written.",
     "memory_utilization_percent", 0.01),
    ("memory_used_bytes", "Memory that processes hold.", "memory_used_bytes", 1),
    ("memory_reserved_bytes", "Memory that the driver keeps for itself.", "memory_reserved_bytes", 1),
    ("memory_total_bytes", "Memory that there is.", "memory_total_bytes", 1),
    ("power_watts", "Power that it draws.", "power_w", 1),
    ("temperature_celsius", "Temperature of the chip.", "temperature_c", 1),
    ("memory_temperature_celsius", "Temperature of the memory.", "memory_temperature_c", 1),
    ("sm_clock_hertz", "Clock of the multiprocessors.", "sm_clock_mhz", _MHZ),
    ("memory_clock_hertz", "Clock of the memory.", "memory_clock_mhz", _MHZ),
    ("remapped_rows", "Rows of memory that were replaced.", "remapped_rows", 1),
)  # fmt: skip
_OF_FACTS = (
    ("power_limit_watts", "Power that it may draw.", "power_limit_w"),
    ("pcie_link_width", "Lanes of its PCIe link.", "pcie_width"),
    ("pcie_link_width_max", "Lanes that its PCIe link could have.", "pcie_width_max"),
    ("pcie_link_generation_max", "PCIe generation that its link could have.", "pcie_generation_max"),
)
_THROTTLE = (
    *("power cap", "hardware slowdown", "thermal (software)", "thermal (hardware)", "power brake", "board limit"),
    "reliability",
)


def families(live: LiveHardware, leaks: dict[str, str] | None = None) -> Iterator[Metric]:
    """What cannot be told has no sample; a GPU that is lost has `sitrep_gpu_up` 0 and nothing else of now."""
    samples = [sample for sample in live.samples if sample.reason is None] if live.reason is None else []
    yield _one("sitrep_gpu_driver_up", "Whether the NVIDIA driver answers.", live.reason is None)
    yield from _known(live)
    yield from _numbers(samples)
    yield from _counters(samples)
    yield _reasons(samples)
    yield _states(live, leaks)
    yield _processes(live)
    if live.at is not None:
        yield _one("sitrep_gpu_sampled_timestamp_seconds", "When the GPUs were read last.", live.at.timestamp())


def _one(name: str, what: str, value: float) -> Metric:
    return GaugeMetricFamily(name, what, value=float(value))


def _labels(gpu: GpuFacts | GpuSample) -> list[str]:
    return [str(gpu.index), gpu.uuid or ""]


def _known(live: LiveHardware) -> Iterator[Metric]:
    info = InfoMetricFamily("sitrep_gpu", "What the GPU is.", labels=_GPU)
    up = GaugeMetricFamily("sitrep_gpu_up", "Whether the GPU answers.", labels=_GPU)
    lost = {sample.uuid for sample in live.samples if sample.reason}
    for gpu in live.facts:
        told = {
            "name": gpu.name, "architecture": gpu.architecture, "pci_bus_id": gpu.pci_bus_id, "driver": live.driver,
            "cuda": live.cuda_driver, "vbios": gpu.vbios,
        }  # fmt: skip
        info.add_metric(_labels(gpu), {name: value for name, value in told.items() if value})
        up.add_metric(_labels(gpu), float(live.reason is None and gpu.reason is None and gpu.uuid not in lost))
    yield info
    yield up
    for name, what, field in _OF_FACTS:
        yield _gauge(name, what, live.facts, field, 1)


def _numbers(samples: list[GpuSample]) -> Iterator[Metric]:
    for name, what, field, factor in _OF_SAMPLES:
        yield _gauge(name, what, samples, field, factor)


def _gauge(name: str, what: str, rows: Iterable[Any], field: str, factor: float) -> Metric:
    family = GaugeMetricFamily(f"sitrep_gpu_{name}", what, labels=_GPU)
    for row in rows:
        value = getattr(row, field, None)
        if value is not None:
            family.add_metric(_labels(row), value * factor)
    return family


def _counters(samples: list[GpuSample]) -> Iterator[Metric]:
    errors = CounterMetricFamily(
        "sitrep_gpu_ecc_errors", "Errors of its memory since the driver was loaded.", labels=(*_GPU, "kind")
    )
    replays = CounterMetricFamily("sitrep_gpu_pcie_replays", "Packets that the PCIe link sent again.", labels=_GPU)
    for sample in samples:
        for kind in ("corrected", "uncorrected"):
            if (count := getattr(sample, f"ecc_{kind}", None)) is not None:
                errors.add_metric([*_labels(sample), kind], count)
        if (count := getattr(sample, "pcie_replays", None)) is not None:
            replays.add_metric(_labels(sample), count)
    yield errors
    yield replays


def _reasons(samples: list[GpuSample]) -> Metric:
    family = GaugeMetricFamily("sitrep_gpu_throttled", "Whether this holds its clocks down.", labels=(*_GPU, "reason"))
    for sample in samples:
        if sample.throttled is not None:
            for word in dict.fromkeys([*_THROTTLE, *sample.throttle]):
                family.add_metric([*_labels(sample), word], float(word in sample.throttle))
    return family


def _states(live: LiveHardware, leaks: dict[str, str] | None) -> Metric:
    family = GaugeMetricFamily("sitrep_gpu_state", "The word for how it is: 1 for that word.", labels=(*_GPU, "state"))
    uuids: dict[int, str | None] = {gpu.index: gpu.uuid for gpu in live.facts}
    uuids |= {sample.index: sample.uuid for sample in live.samples}
    for index, state in states(live, leaks).items():
        for word in STATES:
            family.add_metric([str(index), uuids[index] or "", word], float(word == state.word))
    return family


def _processes(live: LiveHardware) -> Metric:
    family = GaugeMetricFamily(
        "sitrep_gpu_process_memory_bytes", "Memory that a process holds.", labels=(*_GPU, "pid", "name", "launch")
    )
    for owned in live.processes:
        held = owned.process
        if held.used_bytes is not None:
            launch = f"L{owned.launch_id}" if owned.launch_id else ""
            family.add_metric([str(held.index), held.uuid, str(held.pid), owned.name or "", launch], held.used_bytes)
    return family
