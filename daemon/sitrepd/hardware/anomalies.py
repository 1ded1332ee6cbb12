"""What is wrong with GPUs, from their latest samples: throttling under load, one that lags, errors, a narrow link."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import median
from typing import Literal

from sqlmodel import Session

from sitrepd.hardware import series
from sitrepd.hardware.gpus import GpuFacts, GpuSample
from sitrepd.hardware.meaning import throttled_s
from sitrepd.hardware.ranges import ranges
from sitrepd.hardware.state import WORRYING

_LOADED_PERCENT = 50
_HEAT_WINDOW, _HEAT_SHARE = timedelta(seconds=60), 0.2
# A loaded GPU touches its power limit at times, and is meant to: news is what costs much of its clock, and lasts.
_CAP_WINDOW, _CAP_SHARE, _CAP_CLOCK = timedelta(minutes=10), 0.8, 0.85
_LAG_WINDOW, _LAG_CLOCK, _FEWEST_PEERS = timedelta(minutes=5), 0.9, 3
_DAY, _MANY_CORRECTED = timedelta(days=1), 10
_FEWEST_SAMPLES = 10


@dataclass(frozen=True, slots=True)
class Anomaly:
    """`key` names its kind: of one kind a session has one open finding; `launch` is what ran on these GPUs."""

    key: str
    gpus: tuple[int, ...]
    title: str
    detail: str
    launch: int | None = None
    kind: Literal["observation", "hypothesis"] = "observation"
    evidence: tuple[str, ...] = field(default=())


def throttling(db: Session, host_id: int, hot: Iterable[int], capped: Iterable[int], now: datetime) -> list[Anomaly]:
    """Heat and faults within a minute, a power cap within ten, of GPUs that work, among those that show them now."""
    heat = [(gpu, words) for gpu in hot if (words := _heat(db, host_id, gpu, now))]
    numbers = {gpu for gpu, _ in heat}
    power = [(gpu, words) for gpu in capped if gpu not in numbers and (words := _cap(db, host_id, gpu, now))]
    return [_throttling(key, told) for key, told in (("throttling", heat), ("power cap", power)) if told]


def _throttling(key: str, told: Sequence[tuple[int, str]]) -> Anomaly:
    numbers = tuple(gpu for gpu, _ in told)
    why = "heat or a fault" if key == "throttling" else "the power cap"
    figures = tuple(f"GPU {gpu}: {words}" for gpu, words in told)
    return Anomaly(key, numbers, f"GPU {ranges(numbers)}: clocks held down under load by {why}", "; ".join(figures))


def _heat(db: Session, host_id: int, gpu: int, now: datetime) -> str | None:
    since = now - _HEAT_WINDOW
    held = throttled_s(db, host_id, gpu, since, now) if _loaded(db, host_id, gpu, since, now) else {}
    worrying = {word: s for word, s in held.items() if word in WORRYING and s >= _HEAT_SHARE * _HEAT_WINDOW.seconds}
    if not worrying:
        return None
    why = ", ".join(f"{word} in {s:.0f} of {_HEAT_WINDOW.seconds} s" for word, s in worrying.items())
    return f"{why}; {_figures(db, host_id, gpu, since, now)}"


def _cap(db: Session, host_id: int, gpu: int, now: datetime) -> str | None:
    if not _costly(db, host_id, gpu, now):
        return None
    return f"in most of the last 10 min; {_figures(db, host_id, gpu, now - _CAP_WINDOW, now)}"


def _costly(db: Session, host_id: int, gpu: int, now: datetime) -> bool:
    """Whether the power cap has long taken much of the clock that the GPU had within a day."""
    since = now - _CAP_WINDOW
    share = series.throttled_share(db, host_id, gpu, since, now) or 0.0
    if share < _CAP_SHARE or not _loaded(db, host_id, gpu, since, now):
        return False
    clock = series.summary(db, host_id, gpu, "sm_clock_mhz", since, now)
    best = series.summary(db, host_id, gpu, "sm_clock_mhz", now - _DAY, now)
    return clock is not None and best is not None and clock.mean <= _CAP_CLOCK * best.max


def _loaded(db: Session, host_id: int, gpu: int, since: datetime, now: datetime) -> bool:
    use = series.summary(db, host_id, gpu, "utilization", since, now)
    return use is not None and use.samples >= _FEWEST_SAMPLES and use.mean >= _LOADED_PERCENT


def _figures(db: Session, host_id: int, gpu: int, since: datetime, now: datetime) -> str:
    told = (("sm_clock_mhz", "mean", "clock {:.0f} MHz"), ("temperature_c", "max", "up to {:.0f} °C"),
            ("power_w", "mean", "{:.0f} W"))  # fmt: skip
    found = [(series.summary(db, host_id, gpu, name, since, now), which, text) for name, which, text in told]
    return ", ".join(text.format(getattr(one, which)) for one, which, text in found if one is not None)


def lagging(db: Session, host_id: int, peers: Sequence[int], now: datetime) -> Anomaly | None:
    """One of those that work together whose clock is a tenth below the others'; all wait for it."""
    since = now - _LAG_WINDOW
    clocks: dict[int, float] = {}
    for gpu in peers:
        clock = series.summary(db, host_id, gpu, "sm_clock_mhz", since, now)
        if clock is not None and clock.samples >= _FEWEST_SAMPLES and _loaded(db, host_id, gpu, since, now):
            clocks[gpu] = clock.mean
    if len(clocks) < _FEWEST_PEERS:
        return None
    slow = [gpu for gpu, mean in clocks.items() if mean <= _LAG_CLOCK * _others(clocks, gpu)]
    if not slow or 2 * len(slow) >= len(clocks):
        return None
    figures = "; ".join(f"GPU {gpu}: {clocks[gpu]:.0f} MHz, the others {_others(clocks, gpu):.0f} MHz" for gpu in slow)
    title = f"GPU {ranges(slow)} slower than the others that it works with"
    return Anomaly("slower", tuple(slow), title, f"Mean clock of 5 min. {figures}", kind="hypothesis")


def _others(clocks: Mapping[int, float], gpu: int) -> float:
    return median(mean for other, mean in clocks.items() if other != gpu)


def errors(db: Session, host_id: int, samples: Iterable[GpuSample], now: datetime) -> list[Anomaly]:
    """Of the memory: what could not be corrected, rows that are or wait to be replaced, many that were corrected."""
    found = []
    for sample in samples:
        told = [*_uncorrected(sample), *_corrected(db, host_id, sample, now)]
        if told:
            title = f"GPU {sample.index}: errors of its memory"
            found.append(Anomaly(f"memory errors of GPU {sample.index}", (sample.index,), title, "; ".join(told)))
    return found


def _uncorrected(sample: GpuSample) -> Iterable[str]:
    if count := getattr(sample, "ecc_uncorrected", None):
        yield f"{count} uncorrected since the driver was loaded"
    if getattr(sample, "remap_failed", None):
        yield "a faulty row could not be replaced: the GPU is to be exchanged"
    if getattr(sample, "remap_pending", None):
        yield "a faulty row is replaced when the GPU is reset the next time"


def _corrected(db: Session, host_id: int, sample: GpuSample, now: datetime) -> Iterable[str]:
    counted = getattr(sample, "ecc_corrected", None)
    if not counted:
        return
    found = series.summary(db, host_id, sample.index, "ecc_corrected", now - _DAY, now)
    # The driver counts from its start on: what it had counted before may be older than a day.
    grown = 0 if found is None else min(found.max - found.min, counted)
    if grown >= _MANY_CORRECTED:
        yield f"{grown:.0f} corrected within a day"


def narrow(facts: Iterable[GpuFacts], slow: Mapping[str, int]) -> list[Anomaly]:
    """Links with fewer lanes than they could have; `slow` has the generation of those that are slow under load."""
    told: dict[int, str] = {}
    for gpu in facts:
        if gpu.pcie_width and gpu.pcie_width_max and gpu.pcie_width < gpu.pcie_width_max:
            told[gpu.index] = f"GPU {gpu.index}: x{gpu.pcie_width}, could be x{gpu.pcie_width_max}"
        elif (generation := slow.get(gpu.uuid or "")) is not None:
            told[gpu.index] = f"GPU {gpu.index}: Gen{generation} under load, could be Gen{gpu.pcie_generation_max}"
    if not told:
        return []
    title = f"GPU {ranges(told)}: PCIe link below what it could be"
    return [Anomaly("link", tuple(told), title, "; ".join(told.values()))]
