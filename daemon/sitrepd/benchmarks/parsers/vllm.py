"""Results of `vllm bench serve --save-result`, and of the `benchmark_serving.py` before it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from sitrepd.benchmarks.parsers.result import ParsedBenchmark, ServerFacts
from sitrepd.benchmarks.parsers.values import number, run_of

_WORKLOAD = ("backend", "endpoint_type", "num_prompts", "request_rate", "burstiness", "max_concurrency")
_LATENCY = re.compile(r"(mean|median|std|p[\d.]+)_e2el_ms")
_NAMES = {
    "total_token_throughput": "total_throughput",
    "spec_decode_acceptance_length": "accept_length",
    "spec_decode_acceptance_rate": "accept_rate",
    "spec_decode_num_drafts": "num_drafts",
}
_PER_CENT = ("spec_decode_acceptance_rate",)
_WHERE_ANY = ("rtfx",)
"""Of speech alone; 0.0 for all else."""
_LISTS = ("errors", "input_lens", "output_lens", "ttfts", "itls", "generated_texts")


def is_vllm(document: Mapping[str, Any]) -> bool:
    measured = all(name in document for name in ("duration", "completed", "request_throughput"))
    return measured and ("model_id" in document or "total_token_throughput" in document)


def parse_vllm(document: Mapping[str, Any], filename: str, line: int) -> ParsedBenchmark:
    """One result, its numbers as Decimal."""
    model = document.get("model_id")
    label = document.get("label")
    run = run_of(
        "vllm bench serve", label if isinstance(label, str) else None, _metrics(document), filename, line,
        workload={name: document.get(name) for name in _WORKLOAD}, notes=_notes(document),
        server=ServerFacts(model_path=model if isinstance(model, str) else None),
        needs="output_throughput" if "output_throughput" in document else "request_throughput",
    )  # fmt: skip
    date = document.get("date")
    return replace(run, date=date) if isinstance(date, str) else run


def _metrics(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in document.items():
        told = number(value)
        if told is None or name in _WORKLOAD or name in _LISTS or (name in _WHERE_ANY and not told):
            continue
        latency = _LATENCY.fullmatch(name)
        if name in _PER_CENT and told.is_finite():
            told /= 100
        yield (f"{latency[1]}_e2e_latency_ms" if latency else _NAMES.get(name, name)), told
    if "failed" not in document and isinstance(document.get("errors"), list):
        yield "failed", Decimal(sum(bool(one) for one in document["errors"]))
    elif "failed" not in document and (sent := number(document.get("num_prompts"))) is not None:
        done = number(document.get("completed"))
        if done is not None and sent > done:
            yield "failed", sent - done


def _notes(document: Mapping[str, Any]) -> Iterator[str]:
    yield "The file does not say which settings the server had."
    model = document.get("model_id")
    if isinstance(model, str):
        yield f"Model: {model}."
