"""The summary that `aiperf profile` writes (profile_export_aiperf.json), and that of genai-perf before it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from sitrepd.benchmarks.parsers.result import BenchmarkFileError, ParsedBenchmark, ServerFacts
from sitrepd.benchmarks.parsers.values import address, number, run_of

_SCALARS = (
    ("request_throughput", "request_throughput"),
    ("output_token_throughput", "output_throughput"),
    ("total_token_throughput", "total_throughput"),
    ("goodput", "request_goodput"),
    ("request_count", "completed"),
    ("error_request_count", "failed"),
    ("benchmark_duration", "duration"),
    ("total_isl", "total_input_tokens"),
    ("total_osl", "total_output_tokens"),
    ("total_output_tokens", "total_output_tokens"),
    ("output_token_throughput_per_user", "output_throughput_per_user"),
)
_DISTRIBUTIONS = (
    ("time_to_first_token", "ttft_ms"),
    ("inter_token_latency", "itl_ms"),
    ("request_latency", "e2e_latency_ms"),
)
_WHICH = (("avg", "mean"), ("p50", "median"), ("std", "std"), ("p90", "p90"), ("p95", "p95"), ("p99", "p99"))
_MS: dict[str, Decimal] = {
    "ms": Decimal(1), "milliseconds": Decimal(1), "s": Decimal(1000), "sec": Decimal(1000), "seconds": Decimal(1000),
    "us": Decimal("0.001"), "microseconds": Decimal("0.001"), "ns": Decimal("1e-6"), "nanoseconds": Decimal("1e-6"),
}  # fmt: skip
_S = {"s": Decimal(1), "sec": Decimal(1), "seconds": Decimal(1), "ms": Decimal("0.001"), "ns": Decimal("1e-9")}


def is_aiperf(document: Mapping[str, Any]) -> bool:
    found = document.get("request_throughput")
    return isinstance(found, Mapping) and "unit" in found


def parse_aiperf(document: Mapping[str, Any], filename: str, line: int) -> ParsedBenchmark:
    """Raises BenchmarkFileError for a run that did not come to its end."""
    if document.get("was_cancelled") is True or document.get("is_complete") is False:
        why = document.get("incomplete_reason") or "it was cancelled"
        raise BenchmarkFileError(filename, line, f"the run is not complete: {why}", "a run that came to its end")
    asked = document.get("input_config")
    asked = asked if isinstance(asked, Mapping) else {}
    return run_of(
        "aiperf", None, _once(_metrics(document, filename, line)), filename, line,
        workload=_workload(asked), notes=("The file does not say which settings the server had.",),
        server=ServerFacts(*address(_url(asked)), model_path=_model(asked)),
    )  # fmt: skip


def _metrics(document: Mapping[str, Any], filename: str, line: int) -> Iterator[tuple[str, Any]]:
    for theirs, ours in _SCALARS:
        told = document.get(theirs)
        if isinstance(told, Mapping):
            value = number(told.get("avg"))
            factor = _S.get(str(told.get("unit", "")).lower(), Decimal(1)) if ours == "duration" else 1
            yield ours, None if value is None else value * factor
    for theirs, ours in _DISTRIBUTIONS:
        told = document.get(theirs)
        if not isinstance(told, Mapping):
            continue
        unit = str(told.get("unit", "ms")).lower()
        if unit not in _MS:
            raise BenchmarkFileError(filename, line, f"{theirs} is in {unit!r}", "ms, s, us or ns")
        for their, our in _WHICH:
            value = number(told.get(their))
            yield f"{our}_{ours}", None if value is None else value * _MS[unit]


def _once(found: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """The first of each name that has a value."""
    seen: set[str] = set()
    for name, value in found:
        if value is not None and name not in seen:
            seen.add(name)
            yield name, value


def _workload(asked: Mapping[str, Any]) -> dict[str, Any]:
    """`loadgen` and `input` of the versions before 0.13, which has phases and data sets."""
    load = _map(asked.get("loadgen")) or _phase(asked)
    data = _first(asked.get("datasets"))
    prompts = _map(data.get("prompts")) or _map(_map(asked.get("input")).get("prompt"))
    before = (_map(prompts.get("input_tokens")), _map(prompts.get("output_tokens")))
    return {
        "max_concurrency": load.get("concurrency"), "request_rate": load.get("request_rate", load.get("rate")),
        "num_prompts": load.get("request_count", load.get("requests")),
        "input_len": _map(prompts.get("isl")).get("mean", before[0].get("mean")),
        "output_len": _map(prompts.get("osl")).get("mean", before[1].get("mean")),
        "endpoint": _map(asked.get("endpoint")).get("type"),
    }  # fmt: skip


def _phase(asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """The one that is measured."""
    phases = asked.get("phases")
    found = [_map(one) for one in phases] if isinstance(phases, list) else []
    return next((one for one in found if one.get("kind") == "profiling"), _first(phases))


def _model(asked: Mapping[str, Any]) -> str | None:
    names = _map(asked.get("endpoint")).get("model_names")
    if isinstance(names, list) and names:
        return str(names[0])
    name = _first(_map(asked.get("models")).get("items")).get("name")
    return name if isinstance(name, str) else None


def _url(asked: Mapping[str, Any]) -> Any:
    """Of one server; several are none that could be named."""
    endpoint = _map(asked.get("endpoint"))
    urls = endpoint.get("urls") or [endpoint.get("url")]
    return urls[0] if isinstance(urls, list) and len(urls) == 1 else None


def _first(told: Any) -> Mapping[str, Any]:
    return _map(told[0]) if isinstance(told, list) and told else {}


def _map(told: Any) -> Mapping[str, Any]:
    return told if isinstance(told, Mapping) else {}
