"""Values of a result file, checked alike whoever wrote it: finite, possible, and something measured."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

from sitrepd.benchmarks.metrics import Metric, metric
from sitrepd.benchmarks.parsers.result import BenchmarkFileError, ParsedBenchmark, ServerFacts
from sitrepd.redact import redact_json, redact_text

_RANGE = Decimal("1e300")
_MOST_DIGITS = 10_000
_SIGNED = ("loss", "delta", "diff")


def decimal_of(text: str) -> Decimal:
    """As it is written; far beyond what a float can be it is infinite or 0: with it nothing could be reckoned."""
    value = Decimal(text)
    if value.is_finite() and value and abs(value.adjusted()) > _MOST_DIGITS:
        return Decimal(float(text))
    return Decimal("NaN") if value.is_snan() else value


def number(value: Any) -> Decimal | None:
    """A number of JSON, None for anything else."""
    return value if isinstance(value, Decimal) else None


def address(url: Any) -> tuple[str | None, int | None]:
    """Host and port of a URL; None for what it does not tell."""
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        return parts.hostname, parts.port
    except ValueError:
        return None, None


def plain(value: Any) -> Any:
    """With int and float in place of Decimal, without secrets."""
    if isinstance(value, Decimal):
        if not value.is_finite():
            return "inf" if value.is_infinite() else str(value)
        return int(value) if value.as_tuple().exponent == 0 else float(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in redact_json(dict(value)).items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return redact_text(value) if isinstance(value, str) else value


def measured(found: Iterable[tuple[str, Any]], filename: str, line: int) -> tuple[list[Metric], list[str]]:
    """(the metrics that are finite, the names of those that are not); raises BenchmarkFileError for the impossible."""
    metrics: list[Metric] = []
    unmeasured: list[str] = []
    for name, value in found:
        told = number(value)
        if told is None:
            continue
        if not told.is_finite():
            unmeasured.append(name)
        elif abs(told) > _RANGE or (told < 0 and not any(part in name for part in _SIGNED)):
            raise BenchmarkFileError(
                filename, line, f"{name} is {told!s:.40}, which it cannot be", "a number from 0 on"
            )
        elif name == "completed" and told == 0:
            raise BenchmarkFileError(
                filename, line, "no request was completed, so nothing was measured",
                "a run whose requests were answered; its own output tells why they were not",
            )  # fmt: skip
        else:
            metrics.append(metric(name, told))
    return metrics, unmeasured


def run_of(
    tool: str, name: str | None, metrics: Iterable[tuple[str, Any]], filename: str, line: int, *,
    config: Mapping[str, Any] | None = None, workload: Mapping[str, Any] | None = None, notes: Iterable[str] = (),
    server: ServerFacts | None = None, needs: str = "output_throughput",
) -> ParsedBenchmark:  # fmt: skip
    """One run; raises BenchmarkFileError where the metric that it `needs` is not finite."""
    found, unmeasured = measured(metrics, filename, line)
    if needs and not any(one.name == needs for one in found):
        why = f"{needs} is not a finite number" if needs in unmeasured else f"it has no {needs}"
        raise BenchmarkFileError(filename, line, why, f"the result that {tool} writes at its end")
    told = list(notes)
    if unmeasured:
        told.append(f"Not measured (NaN or infinite in the file): {', '.join(unmeasured)}.")
    return ParsedBenchmark(
        tool=tool,
        name=redact_text(name) if name else tool,
        config={key: plain(value) for key, value in (config or {}).items() if value is not None},
        workload={key: plain(value) for key, value in (workload or {}).items() if value not in (None, "")},
        metrics=tuple(found),
        notes=tuple(told),
        server=server or ServerFacts(),
        digest=hashlib.sha256(repr([(one.name, str(one.value)) for one in found]).encode()).hexdigest(),
        line=line,
    )
