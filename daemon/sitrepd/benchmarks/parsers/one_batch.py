"""Lines of `sglang.bench_one_batch_server`: one batch size, input and output length each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sitrepd.benchmarks.parsers.result import ParsedBenchmark
from sitrepd.benchmarks.parsers.values import number, run_of

_WORKLOAD = ("batch_size", "input_len", "output_len", "backend")
_NAMES = {"acc_length": "accept_length", "overall_throughput": "total_throughput"}
_UNMEASURED = -1
"""What it writes for an accept length that the server does not tell."""


def is_one_batch(document: Mapping[str, Any]) -> bool:
    return all(name in document for name in ("batch_size", "input_len", "output_len", "latency", "output_throughput"))


def parse_one_batch(document: Mapping[str, Any], filename: str, line: int) -> ParsedBenchmark:
    """One line, its numbers as Decimal."""
    name = document.get("run_name")
    told = name if isinstance(name, str) and name != "default" else None
    return run_of(
        "sglang.bench_one_batch_server", told, _metrics(document), filename, line,
        workload={key: document.get(key) for key in _WORKLOAD}, notes=_notes(document),
    )  # fmt: skip


def _metrics(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in document.items():
        told = number(value)
        if told is not None and name not in _WORKLOAD and told != _UNMEASURED:
            yield _NAMES.get(name, name), told


def _notes(document: Mapping[str, Any]) -> Iterator[str]:
    yield "The file does not say which settings the server had."
    if (number(document.get("acc_length")) or 0) > 0:
        yield "accept_length is the average since the server started, not of this run."
