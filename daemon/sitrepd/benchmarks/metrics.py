"""What the metrics of benchmarks, profiles and training runs are measured in, and how their numbers are printed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Literal

from sitrepd.decimals import number_text

Better = Literal["higher", "lower"]


@dataclass(frozen=True)
class Metric:
    """A measured value with the decimals that it was told with."""

    name: str
    value: Decimal
    unit: str | None = None
    better: Better | None = None


# The first rule that fits the whole name counts; names as the tools print them.
_RULES: tuple[tuple[str, str | None, Better | None], ...] = (
    # sglang.bench_serving, vllm bench serve
    (r"request_throughput|request_goodput", "req/s", "higher"),
    (r"(?:.*_)?throughput|.*tokens_per_s(?:econd)?|tps", "tok/s", "higher"),
    (r".*_per_(?:s|sec|second)", None, "higher"),
    (r"duration|.*latency|last_ttft|.*_s|.*_seconds|.*_time", "s", "lower"),
    (r"completed", "requests", "higher"),
    (r"failed", "requests", "lower"),
    (r"max_concurrent_requests|concurrency", "requests", None),
    (
        r"total_.*tokens(?:_retokenized)?|total_(?:in|out)put(?:_(?:text|vision))?(?:_tokens)?|.*_cached_tokens",
        "tokens",
        None,
    ),
    (r"acc(?:ept)?_len(?:gth)?|.*_acc(?:ept)?_len(?:gth)?", "tokens", "higher"),
    (r"(?:.*[._])?(?:cache_hit_rate_pct|utilization_pct)", "%", "higher"),
    (r"(?:.*[._])?(?:accept_rate|cache_hit_rate|slo_attainment)|slo_attainment_by_metric\..*", None, "higher"),
    # phases of a profile
    (r"calls", "calls", None),
    (r".*_ms", "ms", "lower"),
    (r".*_us", "us", "lower"),
    # training
    (r"(?:.*[._/])?(?:loss|ploss(?:_\d+)?|perplexity|ppl|error_rate)(?:_\d+)?", None, "lower"),
    (r"(?:.*[._/])?(?:acc|accuracy|f1|score|em|pass@\d+)(?:_\d+)?", None, "higher"),
    # what it costs
    (r"(?:.*_)?tokens_per_joule", "tok/J", "higher"),
    (r"(?:.*_)?joules?_per_token", "J/tok", "lower"),
    (r".*_bytes", "bytes", None),
    (r".*_gb", "GiB", None),
    (r".*_w", "W", None),
)
_COMPILED = tuple((re.compile(pattern), unit, better) for pattern, unit, better in _RULES)
_DISPLAY_DECIMALS = 2
_TOLD_DECIMALS = 3


def describe(name: str) -> tuple[str | None, Better | None]:
    """Unit and better direction of a metric by its name; None where the name says neither."""
    for pattern, unit, better in _COMPILED:
        if pattern.fullmatch(name.lower()):
            return unit, better
    return None, None


def metric(name: str, value: Decimal) -> Metric:
    """The metric of that name with the unit and direction that its name says."""
    return Metric(name, value, *describe(name))


def display_text(value: Decimal) -> str:
    """The number as told where it has up to three decimals, otherwise rounded to two: 420.6354488 is `420.64`.

    Of a number below 0.1 three digits are left, wherever they stand.
    """
    if decimals(value) <= _TOLD_DECIMALS:
        return number_text(value)
    places = max(_DISPLAY_DECIMALS, -value.adjusted() + 2 if value and value.adjusted() < -1 else 0)
    return number_text(rounded(value, min(places, decimals(value))))


def percent_text(value: Decimal) -> str:
    """A difference in per cent with one decimal and its sign, half to even; what rounds to zero is `0.0 %`."""
    tenth = rounded(value, 1)
    return "0.0 %" if not tenth else f"{tenth:+f} %"


def decimals(value: Decimal) -> int:
    """How many digits stand after the point."""
    exponent = value.as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def rounded(value: Decimal, places: int) -> Decimal:
    """The value rounded half to even."""
    return value.quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_EVEN)
