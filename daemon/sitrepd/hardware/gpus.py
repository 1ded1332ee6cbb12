from __future__ import annotations

from dataclasses import dataclass

# nvmlDeviceArchitecture_t; numbers that NVIDIA adds later are printed as numbers.
_ARCHITECTURES = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada Lovelace",
    9: "Hopper",
    10: "Blackwell",
    13: "Rubin",
}
_UNKNOWN_ARCHITECTURE = 0xFFFFFFFF

# nvmlClocksEventReasons, lowest bit first.
_CLOCK_REASONS = {
    0x001: "idle",
    0x002: "application clocks",
    0x004: "power cap",
    0x008: "hardware slowdown",
    0x010: "sync boost",
    0x020: "thermal (software)",
    0x040: "thermal (hardware)",
    0x080: "power brake",
    0x100: "display clocks",
    0x200: "board limit",
    0x400: "reliability",
}
# Of these, what holds the clocks down against the wish of whoever runs something.
THROTTLING = 0x004 | 0x008 | 0x020 | 0x040 | 0x080 | 0x200 | 0x400


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """What a GPU is; None is what the driver does not tell, and `reason` says why a GPU cannot be reached."""

    index: int
    name: str | None = None
    uuid: str | None = None
    pci_bus_id: str | None = None
    pcie: str | None = None
    architecture: str | None = None
    compute_capability: str | None = None
    memory_bytes: int | None = None
    vbios: str | None = None
    pcie_generation: int | None = None
    pcie_generation_max: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    power_limit_w: float | None = None
    power_limit_default_w: float | None = None
    power_limit_min_w: float | None = None
    power_limit_max_w: float | None = None
    ecc: bool | None = None
    mig: bool | None = None
    persistence: bool | None = None
    numa_node: int | None = None
    cpu_affinity: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class GpuSample:
    """What a GPU does now; memory in use is without the driver's reserve where the driver tells them apart.

    The memory's temperature and what comes after the state are asked seldom: they are as of the last time.
    """

    index: int
    uuid: str
    utilization_percent: int | None = None
    memory_utilization_percent: int | None = None
    memory_used_bytes: int | None = None
    memory_reserved_bytes: int | None = None
    memory_total_bytes: int | None = None
    power_w: float | None = None
    temperature_c: int | None = None
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    clock_reasons_mask: int | None = None
    perf_state: str | None = None
    memory_temperature_c: int | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    remapped_rows: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    pcie_replays: int | None = None
    reason: str | None = None

    @property
    def throttle_reasons(self) -> tuple[str, ...] | None:
        """Why the clocks are not higher, "idle" among the words."""
        return None if self.clock_reasons_mask is None else clock_reason_words(self.clock_reasons_mask)

    @property
    def throttled(self) -> bool | None:
        """True when power, heat or a fault holds the clocks down; idling and chosen clocks do not count."""
        return None if self.clock_reasons_mask is None else bool(self.clock_reasons_mask & THROTTLING)

    @property
    def throttle(self) -> tuple[str, ...]:
        """Of the reasons only those of `throttled`."""
        return clock_reason_words((self.clock_reasons_mask or 0) & THROTTLING)


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that holds memory of a GPU; the pid is the driver's, so a container may not know it."""

    index: int
    uuid: str
    pid: int
    used_bytes: int | None
    kind: str


def architecture_word(number: int) -> str | None:
    if number == _UNKNOWN_ARCHITECTURE:
        return None
    return _ARCHITECTURES.get(number, f"architecture {number}")


def clock_reason_words(mask: int) -> tuple[str, ...]:
    """Bits that have no name yet appear as one hexadecimal word."""
    words = [word for bit, word in _CLOCK_REASONS.items() if mask & bit]
    unnamed = mask & ~sum(_CLOCK_REASONS)
    return (*words, f"{unnamed:#x}") if unnamed else tuple(words)


def pcie_word(generation: int | None, width: int | None) -> str | None:
    """The link as people write it: Gen5 x16."""
    if generation is None or width is None:
        return None
    return f"Gen{generation} x{width}"
