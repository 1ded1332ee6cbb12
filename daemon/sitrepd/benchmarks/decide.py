"""What a comparison is for: how sure it is, which settings differ, what is on the Pareto front, what a token costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sitrepd.benchmarks.compare import Comparison, Row
from sitrepd.benchmarks.labels import distinguishing_keys
from sitrepd.benchmarks.metrics import describe
from sitrepd.benchmarks.verdicts import Samples, Verdict, verdicts

THROUGHPUT = "output_throughput"
LATENCIES = (
    "median_tpot_ms", "mean_tpot_ms", "median_itl_ms", "mean_itl_ms", "median_e2e_latency_ms", "mean_e2e_latency_ms",
    "median_ttft_ms", "mean_ttft_ms", "latency",
)  # fmt: skip
PERCENTILES = ("median", "p50", "p90", "p95", "p99")
ACCEPTED = ("accept_length", "acc_length", "accept_len")
_WHAT = ("ttft", "tpot", "itl", "e2e_latency", "e2el")
# What is read of each run besides the metric that is compared: a run may have fifty.
MEASURED = (
    THROUGHPUT, *LATENCIES, *(f"{percentile}_{what}_ms" for percentile in PERCENTILES for what in _WHAT), "failed",
    "duration", "total_output_tokens", "total_output", "joules_per_token", *ACCEPTED,
)  # fmt: skip
_MILLION = 1_000_000
_HOUR_S = 3600


@dataclass(frozen=True)
class Decided:
    """What is known of one row besides its comparison; means are those of its runs."""

    verdict: Verdict
    settings: Mapping[str, Any]
    throughput: float | None = None
    latency: float | None = None
    pareto: bool | None = None
    cost_per_million: float | None = None
    joules_per_token: float | None = None


@dataclass(frozen=True)
class Decision:
    """One `Decided` for each row; `latency` is the metric that the Pareto front is of."""

    comparison: Comparison
    rows: Sequence[Decided]
    keys: Sequence[str]
    latency: str | None


def decide(
    found: Comparison,
    samples: Samples,
    latency: str | None = None,
    price: float | None = None,
    energy: Mapping[str, float] | None = None,
) -> Decision:
    """`price` is that of an hour of all GPUs; `energy` is joules per output token by run."""
    keys = distinguishing_keys(list({id(row.runs[0].config): row.runs[0].config for row in found.rows}.values()))
    named = latency or _latency(found)
    places = [(mean(row, THROUGHPUT), mean(row, named) if named else None) for row in found.rows]
    fair = [row.comparable and not row.superseded and row.why is None for row in found.rows]
    if any(ok and not row.marked for ok, row in zip(fair, found.rows, strict=True)):
        fair = [ok and not row.marked for ok, row in zip(fair, found.rows, strict=True)]
    on_front = front([place if ok else (None, None) for place, ok in zip(places, fair, strict=True)])
    decided = [
        Decided(
            verdict, {key: row.runs[0].config[key] for key in keys if key in row.runs[0].config},
            throughput, late, None if throughput is None or late is None else at in on_front,
            price / (throughput * _HOUR_S) * _MILLION if price is not None and throughput else None,
            _energy(row, energy or {}),
        )
        for at, (row, verdict, (throughput, late)) in enumerate(
            zip(found.rows, verdicts(found, samples), places, strict=True)
        )
    ]  # fmt: skip
    return Decision(found, decided, keys, named)


def mean(row: Row, metric: str) -> float | None:
    """The mean of a metric over the runs that have it."""
    told = [float(one.value) for run in row.runs if (one := run.metrics.get(metric)) is not None]
    return sum(told) / len(told) if told else None


def front(places: Sequence[tuple[float | None, float | None]]) -> set[int]:
    """Those that no other beats: more throughput at no more latency, or less latency at no less throughput."""
    known = [(-x, y, at) for at, (x, y) in enumerate(places) if x is not None and y is not None]
    found: set[int] = set()
    least: tuple[float, float] | None = None
    for x, y, at in sorted(known):
        if least is None or y < least[1] or (x, y) == least:
            found.add(at)
            least = (x, y)
    return found


def _latency(found: Comparison) -> str | None:
    return next(
        (name for name in LATENCIES if any(name in run.metrics for row in found.rows for run in row.runs)), None
    )


def latency_percentiles(row: Row) -> dict[str, list[tuple[str, float, str]]]:
    """By what is timed: (percentile, value, unit), as far as they were measured."""
    told: dict[str, list[tuple[str, float, str]]] = {}
    for what in _WHAT:
        for percentile in PERCENTILES:
            name = f"{percentile}_{what}_ms"
            value = mean(row, name)
            if value is not None:
                told.setdefault(what, []).append((percentile, value, describe(name)[0] or "ms"))
    return told


def _energy(row: Row, measured: Mapping[str, float]) -> float | None:
    told = mean(row, "joules_per_token")
    if told is not None:
        return told
    known = [measured[run.id] for run in row.runs if run.id in measured]
    return sum(known) / len(known) if known else None
