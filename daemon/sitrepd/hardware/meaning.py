"""What the GPUs did while something ran: figures of each over that time, energy, and what held their clocks down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

from pydantic import BaseModel, Field
from sqlmodel import Session, col, select

from sitrepd.claims.models import Claim
from sitrepd.hardware import series
from sitrepd.hardware.ranges import ranges
from sitrepd.hardware.state import WORRYING
from sitrepd.storage import ids

FIGURES = (
    *("utilization", "memory_used_bytes", "power_w", "sm_clock_mhz", "memory_clock_mhz", "temperature_c"),
    "memory_temperature_c",
)
# Of the time: less heat than that is a moment, less of a power cap is how many GPUs run under load.
_HEAT_SHARE, _HEAT_S, _CAP_SHARE = 0.02, 1.0, 0.5


class Figures(BaseModel):
    """Of one metric over the time; percentiles are of samples, of minutes where the time is longer than a day."""

    mean: float
    min: float
    max: float
    p5: float
    p50: float
    p95: float
    p99: float


class GpuSummary(BaseModel):
    index: int
    samples: int
    metrics: dict[str, Figures]
    energy_j: float | None = Field(None, description="Mean power times the time in which it was sampled.")
    throttled_s: dict[str, float] = Field(
        default_factory=dict, description="Seconds by what held its clocks down, a power cap too."
    )


class HardwareSummary(BaseModel):
    """What the GPUs of a launch, of a benchmark or of the host did; `gpus` are those that have samples of that time."""

    host: str
    since: datetime
    until: datetime
    gpus: list[GpuSummary]
    energy_j: float | None = Field(None, description="Of all of them together.")
    output_tokens: int | None = Field(None, description="Tokens that the benchmark generated.")
    joules_per_output_token: float | None = None
    throttled: list[str] = Field(default_factory=list, description="What of it speaks against a measurement.")


def gpus_of(db: Session, host_id: int, launch_id: int | None) -> list[int]:
    """Those that the launch has claimed, by its command or by telling; all of the host where none are known."""
    told: Iterable[Sequence[int]] = ()
    if launch_id is not None:
        query = select(Claim.numbers).where(col(Claim.launch_id) == launch_id, col(Claim.resource) == "gpu")
        told = db.exec(query).all()
    return sorted({number for numbers in told for number in numbers}) or series.known_gpus(db, host_id)


def summarised(
    db: Session, host_id: int, gpus: Sequence[int], since: datetime, until: datetime, tokens: int | None = None
) -> HardwareSummary:
    found = [one for gpu in gpus if (one := _gpu(db, host_id, gpu, since, until)) is not None]
    energies = [one.energy_j for one in found if one.energy_j is not None]
    energy = sum(energies) if energies else None
    return HardwareSummary(
        host=ids.public_id("H", host_id),
        since=since,
        until=until,
        gpus=found,
        energy_j=None if energy is None else round(energy, 1),
        output_tokens=tokens,
        joules_per_output_token=energy / tokens if energy is not None and tokens else None,
        throttled=throttled(db, host_id, gpus, since, until),
    )


def _gpu(db: Session, host_id: int, gpu: int, since: datetime, until: datetime) -> GpuSummary | None:
    found = series.summaries(db, host_id, gpu, FIGURES, since, until)
    metrics = {name: _figures(one) for name, one in found.items()}
    if not metrics:
        return None
    power = metrics.get("power_w")
    known_s = series.sampled_s(db, host_id, gpu, since, until) if power else 0.0
    return GpuSummary(
        index=gpu,
        samples=max(one.samples for one in found.values()),
        metrics=metrics,
        energy_j=None if power is None else round(power.mean * known_s, 1),
        throttled_s=throttled_s(db, host_id, gpu, since, until),
    )


def _figures(one: series.Summary) -> Figures:
    return Figures(**{name: round(getattr(one, name), 3) for name in Figures.model_fields})


def throttled_s(db: Session, host_id: int, gpu: int, since: datetime, until: datetime) -> dict[str, float]:
    """Seconds by reason; several may hold at once."""
    counts: Counter[str] = Counter()
    held = series.throttling(db, host_id, gpu, since, until)
    for words, count in held.items():
        counts.update(dict.fromkeys(words.split(", "), count))
    share = series.throttled_share(db, host_id, gpu, since, until)
    if not share:
        return {}
    samples, seconds = sum(held.values()) / share, series.sampled_s(db, host_id, gpu, since, until)
    return {word: round(count / samples * seconds, 1) for word, count in counts.most_common()}


def throttled(db: Session, host_id: int, gpus: Sequence[int], since: datetime, until: datetime) -> list[str]:
    """What is worth a mark on a measurement: "GPU 3 throttled for 12 s of 60 s: thermal (software)".

    Heat and faults always are, once they lasted; a power cap is where it held for half of the time.
    """
    seconds = (until - since).total_seconds()
    by_reason: dict[str, dict[int, float]] = {}
    for gpu in gpus:
        for word, held_s in throttled_s(db, host_id, gpu, since, until).items():
            if _counts(word, held_s, seconds):
                by_reason.setdefault(word, {})[gpu] = held_s
    return [_sentence(word, held, seconds) for word, held in by_reason.items()]


def _counts(word: str, held_s: float, of_s: float) -> bool:
    if word in WORRYING:
        return held_s >= min(_HEAT_S, of_s / 2) and held_s >= _HEAT_SHARE * of_s
    return held_s >= _CAP_SHARE * of_s


def _sentence(word: str, held: dict[int, float], of_s: float) -> str:
    low, high = (f"{value:.0f}" for value in (min(held.values()), max(held.values())))
    lasted = f"{high} s" if low == high else f"{low} to {high} s"
    return f"GPU {ranges(held)} throttled for {lasted} of {of_s:.0f} s: {word}"
