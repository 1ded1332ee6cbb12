"""The table that `bench_serving` prints at its end (SGLang, vLLM), where the file that it wrote is not to be had."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from sitrepd.benchmarks.metrics import Metric, metric
from sitrepd.benchmarks.parsers.result import BenchmarkFileError, ParsedBenchmark, ServerFacts
from sitrepd.redact import redact_text

_TABLE = re.compile(r"^=+ Serving Benchmark Result =+$(.*?)^=+$", re.MULTILINE | re.DOTALL)
_LINE = re.compile(r"^([A-Z][^:\n]*):[ \t]+(\S+)[ \t]*$", re.MULTILINE)
_ARGUMENTS = re.compile(r"Namespace\((.*)\)")
_ARGUMENT = re.compile(r"(\w+)=(?:'([^']*)'|([\w.+-]+))(?=, |$)")
_WORKLOAD = (
    "backend", "dataset_name", "request_rate", "max_concurrency", "random_input_len",
    "random_output_len", "random_range_ratio", "sharegpt_output_len",
)  # fmt: skip
_NAMES = {
    "Successful requests": "completed",
    "Failed requests": "failed",
    "Benchmark duration (s)": "duration",
    "Total input tokens": "total_input_tokens",
    "Total generated tokens": "total_output_tokens",
    "Request throughput (req/s)": "request_throughput",
    "Input token throughput (tok/s)": "input_throughput",
    "Output token throughput (tok/s)": "output_throughput",
    "Peak output token throughput (tok/s)": "max_output_tokens_per_s",
    "Peak concurrent requests": "max_concurrent_requests",
    "Total token throughput (tok/s)": "total_throughput",
    "Total Token throughput (tok/s)": "total_throughput",
    "Concurrency": "concurrency",
    "Accept length": "accept_length",
}
_LATENCY = re.compile(r"(Mean|Median|Std|Max|P\d+(?:\.\d+)?) (E2E Latency|E2EL|TTFT|TPOT|ITL) \(ms\)")


def is_printed(data: bytes) -> bool:
    return b" Serving Benchmark Result =" in data


def parse_printed(data: bytes, filename: str) -> list[ParsedBenchmark]:
    """One run a table; raises BenchmarkFileError where a table has no throughput."""
    text = data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    found = []
    before = 0
    for table in _TABLE.finditer(text):
        line = text.count("\n", 0, table.start()) + 1
        metrics = tuple(_metrics(table[1]))
        if not any(one.name == "output_throughput" for one in metrics):
            raise BenchmarkFileError(filename, line, "the table has no output token throughput", "the table as printed")
        found.append(_run(table[1], text[before : table.start()], metrics, line))
        before = table.end()
    if not found:
        raise BenchmarkFileError(
            filename, None, "its table of results has no end", "the table as printed, to its last line"
        )
    return found


def _run(table: str, above: str, metrics: tuple[Metric, ...], line: int) -> ParsedBenchmark:
    arguments = _arguments(above)
    workload = {name: value for name in _WORKLOAD if (value := arguments.get(name)) is not None}
    port = _port(str(arguments.get("base_url") or "")) or arguments.get("port")
    return ParsedBenchmark(
        tool="sglang.bench_serving" if "Max request concurrency" in table or arguments else "bench_serving",
        name=str(arguments.get("tag") or "printed"),
        config={},
        workload=workload,
        metrics=metrics,
        notes=("Read from what it printed, which is rounded.",),
        server=ServerFacts(port=port if isinstance(port, int) else None, model_path=_text(arguments.get("model"))),
        digest=hashlib.sha256(table.encode()).hexdigest(),
        line=line,
    )


def _metrics(table: str) -> Iterator[Metric]:
    for label, told in _LINE.findall(table):
        latency = _LATENCY.fullmatch(label)
        name = f"{latency[1].lower()}_{_kind(latency[2])}_ms" if latency else _NAMES.get(label)
        if name is not None and (value := _number(told)) is not None:
            yield metric(name, value)


def _kind(told: str) -> str:
    return "e2e_latency" if told.startswith("E2E") else told.lower()


def _number(told: str) -> Decimal | None:
    return Decimal(told) if re.fullmatch(r"\d+(?:\.\d+)?", told) else None


def _arguments(above: str) -> dict[str, Any]:
    """What the tool says that it was asked, last said last; values that are no plain text or number are left out."""
    found: dict[str, Any] = {}
    for told in _ARGUMENTS.findall(above):
        for name, quoted, bare in _ARGUMENT.findall(told):
            if bare in ("None", "False", "True"):
                continue
            found[name] = redact_text(quoted) if not bare else _plain(bare)
    return found


def _plain(told: str) -> int | float | str:
    if told.isdigit():
        return int(told)
    return float(told) if _number(told) is not None else told


def _port(url: str) -> int | None:
    found = re.search(r":(\d{1,5})(?:/|$)", url)
    return int(found[1]) if found else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
