"""How sure a difference of two means is: Welch's degrees of freedom, Fieller's interval of a ratio, Grubbs' outliers.

The quantiles of Student's distribution are computed here: SciPy would take 80 MB of memory for this one function.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

CONFIDENCE = 0.95
_OUTLIER = 0.001
_FEWEST_FOR_OUTLIERS = 4


@dataclass(frozen=True)
class Sample:
    """Repeats of one configuration; `variance` is that of one value, its rounding included."""

    count: int
    mean: float
    variance: float

    @property
    def of_mean(self) -> float:
        """The variance of the mean."""
        return self.variance / self.count


@dataclass(frozen=True)
class Interval:
    """Of a ratio less one: -0.02 to 0.07 is "2 % less to 7 % more"."""

    low: float
    high: float


def sample(values: Sequence[float], resolution: float = 0.0) -> Sample:
    """Of values that were rounded to `resolution`: equal ones are not known to be equal beyond it."""
    count = len(values)
    mean = math.fsum(values) / count
    spread = math.fsum((value - mean) ** 2 for value in values) / (count - 1) if count > 1 else 0.0
    return Sample(count, mean, spread + resolution**2 / 12)


def ratio_interval(one: Sample, baseline: Sample, confidence: float = CONFIDENCE) -> Interval | None:
    """Fieller's interval of one ÷ baseline, less one; None with a single value, or a baseline that may be zero."""
    if one.count < 2 or baseline.count < 2 or not baseline.mean:
        return None
    ratio = one.mean / baseline.mean
    scaled = ratio**2 * baseline.of_mean
    t = quantile(confidence, freedom(one.of_mean, one.count, scaled, baseline.count))
    square = baseline.mean**2 - t**2 * baseline.of_mean
    if square <= 0:
        return None
    middle = one.mean * baseline.mean
    root = math.sqrt(max(0.0, middle**2 - square * (one.mean**2 - t**2 * one.of_mean)))
    return Interval((middle - root) / square - 1, (middle + root) / square - 1)


def differs(one: Sample, baseline: Sample, confidence: float = CONFIDENCE) -> int:
    """1 or -1 where Welch's interval of the difference lies above or below zero, else 0; the ratio may have none."""
    variance = one.of_mean + baseline.of_mean
    apart = one.mean - baseline.mean
    t = quantile(confidence, freedom(one.of_mean, one.count, baseline.of_mean, baseline.count))
    return 0 if abs(apart) <= t * math.sqrt(variance) else int(math.copysign(1, apart))


def freedom(one: float, count: int, other: float, others: int) -> float:
    """Welch and Satterthwaite's, of two variances of means."""
    if one + other == 0:
        return float(count + others - 2)
    # As shares of the whole, since the squares of tiny variances would be zero.
    share = one / (one + other)
    return 1 / (share**2 / (count - 1) + (1 - share) ** 2 / (others - 1))


def mean_interval(one: Sample, confidence: float = CONFIDENCE) -> tuple[float, float] | None:
    """Student's interval of a mean."""
    if one.count < 2:
        return None
    half = quantile(confidence, one.count - 1) * math.sqrt(one.of_mean)
    return one.mean - half, one.mean + half


def outlier(values: Sequence[float]) -> int | None:
    """The place of a value that does not belong to the others, by Grubbs' test (one in a thousand is so by chance)."""
    count = len(values)
    if count < _FEWEST_FOR_OUTLIERS:
        return None
    mean = math.fsum(values) / count
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1))
    if spread <= abs(mean) * 1e-12:
        return None
    place = max(range(count), key=lambda at: abs(values[at] - mean))
    t = quantile(1 - _OUTLIER / count, count - 2)
    most = (count - 1) / math.sqrt(count) * math.sqrt(t**2 / (count - 2 + t**2))
    return place if abs(values[place] - mean) / spread > most else None


@lru_cache(maxsize=4096)
def quantile(confidence: float, freedom: float) -> float:
    """The t that so much of Student's distribution lies within, on both sides."""
    outside = 1 - confidence
    t = _first_guess(outside, freedom)
    for _ in range(100):
        # The tail falls and is convex, so Newton's steps end on its left side and then never pass the root again.
        step = (tail(t, freedom) - outside) / (2 * _density(t, freedom))
        t = max(t + step, t / 2)
        if abs(step) <= 1e-10 * t:
            break
    return t


def _first_guess(outside: float, freedom: float) -> float:
    z = _normal(outside)
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


@lru_cache(maxsize=64)
def _normal(outside: float) -> float:
    return NormalDist().inv_cdf(1 - outside / 2)


def _density(t: float, freedom: float) -> float:
    scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - math.log(freedom * math.pi) / 2
    return math.exp(scale - (freedom + 1) / 2 * math.log1p(t * t / freedom))


def tail(t: float, freedom: float) -> float:
    """How much of Student's distribution lies beyond t, both sides together."""
    return _incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5)


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularised one, by Lentz's continued fraction."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )  # fmt: skip
    if x > (a + 1) / (a + b + 2):
        return 1 - front * _fraction(1 - x, b, a) / b
    return front * _fraction(x, a, b) / a


def _fraction(x: float, a: float, b: float) -> float:
    tiny = 1e-300
    d = 1 / (1 - (a + b) * x / (a + 1) or tiny)
    c, found = 1.0, d
    for m in range(1, 1000):
        for step in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / (1 + step * d or tiny)
            c = 1 + step / c or tiny
            found *= d * c
        if abs(d * c - 1) < 1e-15:
            break
    return found
