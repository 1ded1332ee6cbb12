"""Result files of benchmark tools, read whole or not at all."""

from __future__ import annotations

from sitrepd.benchmarks.parsers.documents import documents
from sitrepd.benchmarks.parsers.printed import is_printed, parse_printed
from sitrepd.benchmarks.parsers.result import BenchmarkFileError, ParsedBenchmark, ServerFacts
from sitrepd.benchmarks.parsers.sglang import is_bench_serving, parse_bench_serving

__all__ = ["BenchmarkFileError", "ParsedBenchmark", "ServerFacts", "is_printed", "read_results"]


def read_results(data: bytes, filename: str) -> list[ParsedBenchmark]:
    """The benchmarks of a result file, one a line; raises BenchmarkFileError, and then none of them counts.

    The JSONL of `sglang.bench_serving` from 0.4.6 on, and of its Rust client; else the table that it printed.
    """
    if is_printed(data):
        return parse_printed(data, filename)
    results = []
    for line, document in documents(data, filename):
        if not is_bench_serving(document):
            keys = ", ".join(sorted(document)[:5]) or "nothing"
            raise BenchmarkFileError(
                filename, line, f"the object has {keys}, and not backend, completed, duration and output_throughput",
                "a line of sglang.bench_serving --output-file",
            )  # fmt: skip
        results.append(parse_bench_serving(document, data, filename, line))
    return results
