"""Results of SpecForge's `bench_eagle3.py`: accept length and throughput by data set and speculative settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from sitrepd.benchmarks.parsers.result import BenchmarkFileError, ParsedBenchmark, ServerFacts
from sitrepd.benchmarks.parsers.values import number, run_of

_WANTED = "the file that bench_eagle3.py writes at its end"
_METRICS = ("output_throughput", "accept_length", "latency", "accuracy")


def is_bench_eagle3(document: Mapping[str, Any]) -> bool:
    entries = [one for one in document.values() if isinstance(one, list)]
    return bool(entries) and all(
        isinstance(one, dict) and "metrics" in one and "num_draft_tokens" in one for found in entries for one in found
    )


def parse_bench_eagle3(document: Mapping[str, Any], filename: str, line: int) -> list[ParsedBenchmark]:
    """A run for each data set, configuration and repeat."""
    model = document.get("model")
    return [
        run
        for name, entries in document.items()
        if isinstance(entries, list)
        for entry in entries
        for run in _runs(name, entry, model if isinstance(model, str) else None, filename, line)
    ]


def _runs(
    name: str, entry: Mapping[str, Any], draft: str | None, filename: str, line: int
) -> Iterator[ParsedBenchmark]:
    found = entry["metrics"]
    told: Sequence[Any] = found if isinstance(found, list) else [found]
    if not told or not all(isinstance(one, Mapping) for one in told):
        raise BenchmarkFileError(filename, line, f"{name} has no metrics", _WANTED)
    workload = {"dataset_name": name, "batch_size": entry.get("batch_size"), "num_samples": entry.get("num_samples")}
    for one in told:
        yield run_of(
            "bench_eagle3", None, _metrics(one, filename, line), filename, line, config=_config(entry, draft),
            workload=workload, server=ServerFacts(draft_model_path=draft), notes=_notes(entry),
        )  # fmt: skip


def _metrics(one: Mapping[str, Any], filename: str, line: int) -> Iterator[tuple[str, Any]]:
    for name in _METRICS:
        yield name, one.get(name)
    asked = number(one.get("num_questions"))
    if asked is not None:
        if asked == 0:
            raise BenchmarkFileError(filename, line, "no question was answered, so nothing was measured", _WANTED)
        yield "completed", asked


def _config(entry: Mapping[str, Any], draft: str | None) -> dict[str, Any]:
    steps = number(entry.get("steps"))
    if steps is None:
        return {}
    if steps == 0:
        return {"speculative_algorithm": None}
    return {
        "speculative_algorithm": "EAGLE3",
        "speculative_num_steps": steps,
        "speculative_eagle_topk": entry.get("topk"),
        "speculative_num_draft_tokens": entry.get("num_draft_tokens"),
        "speculative_draft_model_path": draft,
    }


def _notes(entry: Mapping[str, Any]) -> Iterator[str]:
    if number(entry.get("steps")) is None:
        yield "The file does not say which speculative settings the server had."
    told = entry["metrics"]
    first = told[0] if isinstance(told, list) else told
    if isinstance(first, Mapping) and first.get("accept_length") == Decimal(1):
        yield "bench_eagle3 writes an accept length of 1 also for a server that does not speculate."
