"""Reports of `guidellm` (JSON): one run for each benchmark in it, such as each rate of a sweep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from sitrepd.benchmarks.parsers.result import BenchmarkFileError, ParsedBenchmark, ServerFacts
from sitrepd.benchmarks.parsers.values import number, run_of

# Of theirs, ours, and what a value of theirs is multiplied with to be ours.
_DISTRIBUTIONS = (
    ("time_to_first_token_ms", "ttft_ms", 1),
    ("time_per_output_token_ms", "tpot_ms", 1),
    ("inter_token_latency_ms", "itl_ms", 1),
    ("request_latency", "e2e_latency_ms", 1000),
)
_RATES = (
    ("requests_per_second", "request_throughput"),
    ("output_tokens_per_second", "output_throughput"),
    ("prompt_tokens_per_second", "input_throughput"),
    ("tokens_per_second", "total_throughput"),
    ("request_concurrency", "concurrency"),
)
_PERCENTILES = (("p90", "p90"), ("p95", "p95"), ("p99", "p99"))


def is_guidellm(document: Mapping[str, Any]) -> bool:
    found = document.get("benchmarks")
    return isinstance(found, list) and bool(found) and all(isinstance(one, dict) and "metrics" in one for one in found)


def parse_guidellm(document: Mapping[str, Any], filename: str, line: int) -> list[ParsedBenchmark]:
    """Each benchmark of the report."""
    return [_parse(one, document, filename, line) for one in document["benchmarks"]]


def _parse(one: Mapping[str, Any], document: Mapping[str, Any], filename: str, line: int) -> ParsedBenchmark:
    metrics = one.get("metrics")
    if not isinstance(metrics, Mapping):
        raise BenchmarkFileError(filename, line, "a benchmark of the report has no metrics", "the report of guidellm")
    strategy = _strategy(one)
    kind = strategy.get("type_") or strategy.get("kind") or strategy.get("type")
    streams = strategy.get("streams") or strategy.get("max_concurrency")
    workload = {
        "strategy": kind,
        "max_concurrency": streams,
        "request_rate": strategy.get("rate"),
        "data": _data(document),
    }
    return run_of(
        "guidellm", None, _metrics(metrics, one), filename, line, workload=workload,
        notes=("The file does not say which settings the server had.",),
        server=ServerFacts(model_path=_model(one, document)),
    )  # fmt: skip


def _metrics(metrics: Mapping[str, Any], one: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    totals = metrics.get("request_totals")
    if isinstance(totals, Mapping):
        yield "completed", totals.get("successful")
        yield "failed", totals.get("errored")
    for theirs, ours in _RATES:
        yield ours, _successful(metrics.get(theirs)).get("mean")
    for theirs, ours, factor in _DISTRIBUTIONS:
        told = _successful(metrics.get(theirs))
        named = [("mean", told.get("mean")), ("median", told.get("median")), ("std", told.get("std_dev"))]
        percentiles = told.get("percentiles")
        if isinstance(percentiles, Mapping):
            named += [(our, percentiles.get(their)) for their, our in _PERCENTILES]
        for what, value in named:
            found = number(value)
            yield f"{what}_{ours}", None if found is None else found * Decimal(factor)
    for theirs, ours in (("prompt_token_count", "total_input_tokens"), ("output_token_count", "total_output_tokens")):
        yield ours, _successful(metrics.get(theirs)).get("total_sum")
    yield "duration", one.get("duration")


def _successful(found: Any) -> Mapping[str, Any]:
    """The distribution over requests that were answered."""
    told = found.get("successful") if isinstance(found, Mapping) else None
    return told if isinstance(told, Mapping) else {}


def _strategy(one: Mapping[str, Any]) -> Mapping[str, Any]:
    """In `config` since 0.4, in `args` before."""
    for place in ("config", "args"):
        found = one.get(place)
        if isinstance(found, Mapping) and isinstance(found.get("strategy"), Mapping):
            strategy: Mapping[str, Any] = found["strategy"]
            return strategy
    found = one.get("scheduler")
    told = found.get("strategy") if isinstance(found, Mapping) else None
    return told if isinstance(told, Mapping) else {}


def _data(document: Mapping[str, Any]) -> Any:
    for place in ("args", "config"):
        found = document.get(place)
        if isinstance(found, Mapping) and found.get("data"):
            return found["data"]
    return None


def _model(one: Mapping[str, Any], document: Mapping[str, Any]) -> str | None:
    config = one.get("config")
    backend = config.get("backend") if isinstance(config, Mapping) else one.get("worker")
    arguments = document.get("args")
    for place in (backend, arguments):
        if isinstance(place, Mapping):
            for name in ("model", "backend_model"):
                if isinstance(place.get(name), str):
                    return str(place[name])
    return None
