"""Result files of benchmark tools, read whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sitrepd.benchmarks.parsers.aiperf import is_aiperf, parse_aiperf
from sitrepd.benchmarks.parsers.documents import documents
from sitrepd.benchmarks.parsers.guidellm import is_guidellm, parse_guidellm
from sitrepd.benchmarks.parsers.one_batch import is_one_batch, parse_one_batch
from sitrepd.benchmarks.parsers.printed import is_printed, parse_printed
from sitrepd.benchmarks.parsers.result import BenchmarkFileError, ParsedBenchmark, ServerFacts
from sitrepd.benchmarks.parsers.sglang import is_bench_serving, parse_bench_serving
from sitrepd.benchmarks.parsers.specforge import is_bench_eagle3, parse_bench_eagle3
from sitrepd.benchmarks.parsers.vllm import is_vllm, parse_vllm

__all__ = ["BenchmarkFileError", "ParsedBenchmark", "ServerFacts", "is_printed", "read_results"]

_A_MAPPING = "a mapping: `sitrep bench mapping add NAME output_throughput=COLUMN …`, then --mapping NAME"
_KNOWN = (
    "a result of sglang.bench_serving, bench_one_batch_server, vllm bench serve, guidellm, aiperf or bench_eagle3; "
    "for anything else, make a mapping with `sitrep bench mapping add`"
)


def read_results(data: bytes, filename: str, *, mixed: bool = True) -> list[ParsedBenchmark]:
    """The benchmarks of a result file; raises BenchmarkFileError, and then none of them counts.

    The JSONL of `sglang.bench_serving` from 0.4.6 on, of its Rust client and of `bench_one_batch_server`, the JSON of
    `vllm bench serve`, guidellm, aiperf and SpecForge's `bench_eagle3`; else the table that `bench_serving` printed.
    Unless `mixed`, all of it must be of one tool and one version.
    """
    if is_printed(data):
        return parse_printed(data, filename)
    if filename.lower().endswith((".csv", ".tsv")):
        raise BenchmarkFileError(filename, None, "nothing says what the columns of this table are", _A_MAPPING)
    found = [run for line, document in documents(data, filename) for run in _runs(document, data, filename, line)]
    if not mixed:
        _must_be_alike(found, filename)
    return found


def _must_be_alike(found: Sequence[ParsedBenchmark], filename: str) -> None:
    """What two versions have measured is compared by mistake where it comes in one file."""
    first = found[0]
    for run in found[1:]:
        ours, theirs = _writer(first), _writer(run)
        if ours != theirs:
            raise BenchmarkFileError(
                filename, run.line, f"this line is of {theirs}, and line {first.line} is of {ours}",
                "runs of one version; split the file, or import it with --mixed if both are meant",
            )  # fmt: skip


def _writer(run: ParsedBenchmark) -> str:
    return f"{run.tool} against SGLang {run.server.version}" if run.server.version else run.tool


def _runs(document: Mapping[str, Any], data: bytes, filename: str, line: int) -> list[ParsedBenchmark]:
    if is_vllm(document):
        return [parse_vllm(document, filename, line)]
    if is_bench_serving(document):
        return [parse_bench_serving(document, data, filename, line)]
    if is_one_batch(document):
        return [parse_one_batch(document, filename, line)]
    if is_aiperf(document):
        return [parse_aiperf(document, filename, line)]
    if is_guidellm(document):
        return parse_guidellm(document, filename, line)
    if is_bench_eagle3(document):
        return parse_bench_eagle3(document, filename, line)
    keys = ", ".join(sorted(document)[:5]) or "nothing"
    raise BenchmarkFileError(filename, line, f"the object has {keys}, which no tool that is known writes", _KNOWN)
