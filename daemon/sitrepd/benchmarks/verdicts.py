"""What a difference to the baseline means: better, worse, no difference seen, or not known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from sitrepd.benchmarks.compare import Comparison, Row
from sitrepd.benchmarks.metrics import Better, decimals
from sitrepd.benchmarks.statistics import (
    CONFIDENCE,
    Interval,
    Sample,
    differs,
    mean_interval,
    outlier,
    ratio_interval,
    sample,
)

BETTER, WORSE, SAME, UNKNOWN = "better", "worse", "no difference seen", "one run only: not known"
DIFFERENT = "different"
NO_INTERVAL = "no interval, as the baseline's mean may be zero"
METHOD = (
    f"{CONFIDENCE:.0%} intervals of the ratio of means (Fieller, with Welch's degrees of freedom), each by itself; "
    "outliers by Grubbs' test at 0.1%, counted unless said otherwise"
).replace("%", " %")

Samples = Mapping[str, Sequence[Decimal]]
"""Repeated values within one run, by its id."""


@dataclass(frozen=True)
class Verdict:
    """`low` and `high` are per cent to the baseline; `mean_low` and `mean_high` are of the row's own mean."""

    count: int
    mean: float
    word: str | None = None
    low: float | None = None
    high: float | None = None
    mean_low: float | None = None
    mean_high: float | None = None
    outliers: tuple[str, ...] = ()
    without_outliers: Verdict | None = None
    marks: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Values:
    ids: list[str] = field(default_factory=list)
    values: list[Decimal] = field(default_factory=list)

    def sample(self) -> Sample:
        resolution = 10.0 ** -min((decimals(value) for value in self.values), default=0)
        return sample([float(value) for value in self.values], resolution)

    def without(self, place: int) -> _Values:
        return _Values(self.ids[:place] + self.ids[place + 1 :], self.values[:place] + self.values[place + 1 :])


def verdicts(found: Comparison, samples: Samples, rows: Iterable[Row] | None = None) -> list[Verdict]:
    """One for each row (of these, or of all), in order."""
    base = found.baseline
    of_base = _values(base, found.metric, samples).sample() if base else None
    wanted = found.rows if rows is None else rows
    return [_verdict(row, found, samples, None if row is base else of_base) for row in wanted]


def sureness(row: Row, verdict: Verdict) -> str:
    """In words: "better, 95 % interval +3.1 to +8.2 %"; "" where there is nothing that the row is compared with."""
    if verdict.word is None:
        return ""
    is_baseline_single = verdict.word == UNKNOWN and verdict.count > 1
    told = ["one run of the baseline only: not known" if is_baseline_single else verdict.word]
    if verdict.low is not None and verdict.high is not None:
        told.append(f"{CONFIDENCE:.0%} interval".replace("%", " %") + f" {verdict.low:+.1f} to {verdict.high:+.1f} %")
    elif verdict.word != UNKNOWN:
        told.append(NO_INTERVAL)
    if len(row.runs) == 1 and verdict.count > 1:
        told.append(f"{verdict.count} samples of one run")
    if verdict.outliers:
        rest = verdict.without_outliers
        then = f": {rest.word} without it" if rest is not None and rest.word and rest.word != verdict.word else ""
        told.append(f"{', '.join(verdict.outliers)} is an outlier{then}")
    return ", ".join(told)


def _values(row: Row, metric: str, samples: Samples) -> _Values:
    """The values of the runs; of a single run its samples, where it has some."""
    if len(row.runs) == 1 and len(samples.get(row.runs[0].id, ())) > 1:
        told = list(samples[row.runs[0].id])
        return _Values([f"{row.runs[0].id}#{at + 1}" for at in range(len(told))], told)
    return _Values([run.id for run in row.runs], [run.metrics[metric].value for run in row.runs])


def _verdict(row: Row, found: Comparison, samples: Samples, base: Sample | None) -> Verdict:
    values = _values(row, found.metric, samples)
    compared = base if row.comparable and not row.superseded and row.why is None else None
    place = outlier([float(value) for value in values.values])
    rest = _judged(values.without(place), compared, found.better) if place is not None else None
    whole = _judged(values, compared, found.better)
    named = (values.ids[place],) if place is not None else ()
    return Verdict(
        whole.count, whole.mean, whole.word, whole.low, whole.high, whole.mean_low, whole.mean_high, named, rest,
        _marks(row),
    )  # fmt: skip


def _judged(values: _Values, base: Sample | None, better: Better | None) -> Verdict:
    own = values.sample()
    of_mean = mean_interval(own) or (None, None)
    interval = ratio_interval(own, base) if base is not None else None
    return Verdict(
        own.count, own.mean, _word(own, base, interval, better),
        round(interval.low * 100, 4) if interval else None, round(interval.high * 100, 4) if interval else None,
        *of_mean,
    )  # fmt: skip


def _word(own: Sample, base: Sample | None, interval: Interval | None, better: Better | None) -> str | None:
    if base is None:
        return None
    if own.count < 2 or base.count < 2:
        return UNKNOWN
    # A baseline that may be zero bounds no ratio, and yet the difference may be certain.
    sign = differs(own, base) if interval is None else _sign(interval)
    if sign == 0:
        return SAME
    if better is None:
        return DIFFERENT
    return BETTER if (sign > 0) == (better == "higher") else WORSE


def _sign(interval: Interval) -> int:
    return int(interval.low > 0) - int(interval.high < 0)


def _marks(row: Row) -> tuple[str, ...]:
    """What speaks against single runs of a row."""
    notes = [f"{run.id}: {run.note}" for run in row.runs if run.note and not run.comparable and not run.marks]
    return (*row.marks, *notes)
