"""Reports of `guidellm` (JSON): one run for each benchmark in it, such as each rate of a sweep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sitrepd.benchmarks.parsers.result import BenchmarkFileError, ParsedBenchmark, ServerFacts
from sitrepd.benchmarks.parsers.values import address, number, run_of

# Of theirs, ours, and by how many decimals a value of theirs is shifted to be ours.
_DISTRIBUTIONS = (
    ("time_to_first_token_ms", "ttft_ms", 0),
    ("time_per_output_token_ms", "tpot_ms", 0),
    ("inter_token_latency_ms", "itl_ms", 0),
    ("request_latency", "e2e_latency_ms", 3),
)
_RATES = (
    ("requests_per_second", "request_throughput"),
    ("output_tokens_per_second", "output_throughput"),
    ("prompt_tokens_per_second", "input_throughput"),
    ("tokens_per_second", "total_throughput"),
    ("request_concurrency", "concurrency"),
)
_TPOT = "tpot_ms of guidellm counts the time to the first token in; itl_ms is what other tools call tpot_ms."
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
        "num_prompts": _most(one),
        "data": _data(document),
    }
    return run_of(
        "guidellm", None, _metrics(metrics, one), filename, line, workload=workload,
        notes=("The file does not say which settings the server had.", _TPOT),
        server=ServerFacts(*address(_target(document)), model_path=_model(one, document)),
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
            yield f"{what}_{ours}", None if found is None else found.scaleb(factor)
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


def _most(one: Mapping[str, Any]) -> Any:
    """How many requests were asked for, where that is what ended it."""
    config = one.get("config")
    found = config.get("constraints") if isinstance(config, Mapping) else None
    told = found.get("max_requests") if isinstance(found, Mapping) else None
    asked = told.get("args") if isinstance(told, Mapping) else None
    return asked.get("count") if isinstance(asked, Mapping) else None


def _asked(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """What was asked of the tool: under `config.spec` since 0.8."""
    config = document.get("config")
    for place in (document.get("args"), config, config.get("spec") if isinstance(config, Mapping) else None):
        if isinstance(place, Mapping):
            yield place


def _target(document: Mapping[str, Any]) -> Any:
    """The URL that was asked."""
    for place in _asked(document):
        backend = place.get("backend")
        found = place.get("target") or (backend.get("target") if isinstance(backend, Mapping) else None)
        if found:
            return found
    return None


def _data(document: Mapping[str, Any]) -> Any:
    """Without the many settings that nobody has given."""
    for place in _asked(document):
        if place.get("data"):
            return _given(place["data"])
    return None


def _given(told: Any) -> Any:
    if isinstance(told, Mapping):
        return {name: _given(value) for name, value in told.items() if value not in (None, [], {})}
    if isinstance(told, list):
        found = [_given(one) for one in told]
        return found[0] if len(found) == 1 else found
    return told


def _model(one: Mapping[str, Any], document: Mapping[str, Any]) -> str | None:
    config = one.get("config")
    backend = config.get("backend") if isinstance(config, Mapping) else one.get("worker")
    asked = list(_asked(document))
    for place in (backend, *asked, *(found.get("backend") for found in asked)):
        if isinstance(place, Mapping):
            for name in ("model", "backend_model"):
                if isinstance(place.get(name), str):
                    return str(place[name])
    return None
