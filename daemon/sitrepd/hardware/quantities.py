"""What is kept of a GPU over time, and how it is written as whole numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metric:
    """`code` names it in a stored chunk, for ever; value × `scale` is whole, and so much finer are means kept."""

    code: int
    scale: int = 1
    finer: int = 10


REASONS = "clock_reasons"
KINDS = {
    "utilization": Metric(1),
    "memory_utilization": Metric(2),
    "memory_used_bytes": Metric(3, finer=1),
    "memory_reserved_bytes": Metric(4, finer=1),
    "power_w": Metric(5, scale=1000, finer=1),
    "temperature_c": Metric(6),
    "memory_temperature_c": Metric(7),
    "sm_clock_mhz": Metric(8),
    "memory_clock_mhz": Metric(9),
    REASONS: Metric(10),
    "ecc_corrected": Metric(11),
    "ecc_uncorrected": Metric(12),
    "remapped_rows": Metric(13),
    "pcie_replays": Metric(14),
}
# What has a minimum, a mean and a maximum; why the clocks were held down is counted.
METRICS = tuple(name for name in KINDS if name != REASONS)

RAW, MINUTES, HOURS = 0, 60, 3600
