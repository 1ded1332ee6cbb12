"""The one word for how a GPU is: idle, busy, throttling, leaking or broken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sitrepd.hardware.gpus import GpuFacts, GpuSample
from sitrepd.hardware.live import LiveHardware

IDLE, BUSY, THROTTLING, LEAKING, BROKEN, UNKNOWN = "idle", "busy", "throttling", "leaking", "broken", "unknown"
STATES = (IDLE, BUSY, THROTTLING, LEAKING, BROKEN, UNKNOWN)

WORRYING = frozenset({"hardware slowdown", "thermal (software)", "thermal (hardware)", "power brake", "reliability"})
"""What heat or a fault does; a power cap alone is how many GPUs run under load."""

_BUSY_PERCENT = 5


@dataclass(frozen=True, slots=True)
class State:
    """`why` is a phrase for people, "" where the word says it all."""

    word: str
    why: str = ""


def states(live: LiveHardware, leaks: Mapping[str, str] | None = None) -> dict[int, State]:
    """By index, of all GPUs that are known; `leaks` says by UUID who left memory behind."""
    samples = {sample.index: sample for sample in live.samples}
    facts = {gpu.index: gpu for gpu in live.facts}
    return {
        index: state_of(
            facts.get(index), samples.get(index), live.reason, _leak(facts.get(index), samples.get(index), leaks)
        )
        for index in sorted({*samples, *facts})
    }


def state_of(facts: GpuFacts | None, sample: GpuSample | None, trouble: str | None = None, leak: str = "") -> State:
    """The worst that holds; `trouble` is why the driver answers nothing, so that no sample is of now."""
    broken = trouble or (sample.reason if sample else None) or (facts.reason if facts else None)
    if broken:
        return State(BROKEN, broken)
    if sample is None:
        return State(UNKNOWN, "not sampled yet")
    if getattr(sample, "remap_failed", None):
        return State(BROKEN, "a faulty row of its memory could not be replaced")
    worrying = [word for word in sample.throttle if word in WORRYING]
    if worrying:
        return State(THROTTLING, ", ".join(worrying))
    if leak:
        return State(LEAKING, leak)
    if sample.utilization_percent is None:
        return State(
            UNKNOWN, "it does not tell how busy it is" + (": it is divided (MIG)" if facts and facts.mig else "")
        )
    if sample.utilization_percent < _BUSY_PERCENT:
        return State(IDLE, "")
    return State(BUSY, ", ".join(sample.throttle))


def _leak(facts: GpuFacts | None, sample: GpuSample | None, leaks: Mapping[str, str] | None) -> str:
    uuid = (sample.uuid if sample else None) or (facts.uuid if facts else None)
    return (leaks or {}).get(uuid or "", "")
