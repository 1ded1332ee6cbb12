"""Result files of benchmarks, line by line: one that is cut short does not take the others with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sitrepd.backfill import text
from sitrepd.backfill.found import FIGURES, Passed, Reading, Result
from sitrepd.benchmarks.parsers import BenchmarkFileError, ParsedBenchmark, read_results

MOST_BYTES = 512 << 20
_OTHER_TOOLS = (
    (("batch_size", "input_len", "output_len", "latency"), "a result of sglang.bench_one_batch_server"),
)  # fmt: skip
_TIME_NOTE = "When it ran is known only from the file's last change."


def is_result(document: Mapping[str, Any]) -> bool:
    return all(key in document for key in FIGURES)


def other_tool(document: Mapping[str, Any]) -> str | None:
    """Whose result it is, where it is one of a tool that is not read."""
    return next((name for keys, name in _OTHER_TOOLS if all(key in document for key in keys)), None)


def read_result_file(path: str, mtime: datetime) -> Reading:
    """The runs of a file; raises one of `text.UNREADABLE`."""
    reading = Reading(path)
    with text.opened(path) as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        reading.passed.append(Passed(path, f"a result file of more than {MOST_BYTES >> 20} MiB"))
        return reading
    data = _with_backend(data)
    try:
        runs = list(read_results(data, path))
    except BenchmarkFileError as error:
        runs = _by_lines(data, path, reading, error)
    for run in runs:
        reading.results.append(_result(path, run, mtime))
    for result in reading.results[:-1]:
        result.last = False
    return reading


def measured(path: str, printed: str, ended: datetime) -> list[Result]:
    """The runs in what a command has printed, if it is a benchmark's table."""
    from sitrepd.benchmarks.parsers import is_printed

    data = printed.encode("utf-8", "replace")
    if not is_printed(data):
        return []
    try:
        found = [_result(path, run, ended) for run in read_results(data, path)]
    except BenchmarkFileError:
        return []
    for one in found:
        one.fact["note"] = one.fact["note"].replace(_TIME_NOTE, "It ended when its command did.")
    return found


def is_vllm(document: Mapping[str, Any]) -> bool:
    """Whether `vllm bench serve --save-result` wrote it, which names the backend otherwise in newer releases."""
    return is_result(document) and "model_id" in document and ("endpoint_type" in document or "backend" in document)


def _with_backend(data: bytes) -> bytes:
    """vLLM's results under the name that SGLang's have, all else as it is written."""
    line = data.split(b"\n", 1)[0]
    if b'"endpoint_type"' not in data[: 1 << 20] or b'"backend"' in data[: 1 << 20]:
        return data
    count = 0 if line.rstrip().endswith(b"}") else 1
    return re.sub(rb"^\s*\{", b'{"backend": "vllm", ', data, count=count, flags=re.MULTILINE)


def _by_lines(data: bytes, path: str, reading: Reading, whole: BenchmarkFileError) -> list[ParsedBenchmark]:
    lines = [(number, line) for number, line in enumerate(data.split(b"\n"), 1) if line.strip()]
    runs: list[ParsedBenchmark] = []
    errors: list[tuple[int, str]] = []
    for number, line in lines:
        try:
            runs += read_results(line, path)
        except BenchmarkFileError as error:
            errors.append((number, error.wrong))
    if not runs:
        place = f"line {whole.line}: " if whole.line else ""
        reading.passed.append(Passed(path, f"{place}{whole.wrong}"))
        return []
    first = "; ".join(f"line {number}: {wrong}" for number, wrong in errors[:3])
    more = f"; and {len(errors) - 3} more lines" if len(errors) > 3 else ""
    reading.passed.append(Passed(path, f"{first}{more} (its other {len(runs)} lines were read)"))
    return runs


def _result(path: str, run: ParsedBenchmark, mtime: datetime) -> Result:
    server = run.server
    metrics = {
        one.name: {k: v for k, v in (("value", one.value), ("unit", one.unit), ("better", one.better)) if v is not None}
        for one in run.metrics
    }
    ended = _told_time(run) or mtime
    notes = [*run.notes, *([] if _told_time(run) else [_TIME_NOTE])]
    fact = {
        "name": run.name[:500], "tool": run.tool, "config": run.config, "workload": run.workload, "metrics": metrics,
        "note": " ".join(notes), "artifact": path, "at": ended,
    }  # fmt: skip
    told = {name: value for name, value in vars(server).items() if value is not None}
    return Result(path, digest(run), fact, told, ended)


def digest(run: ParsedBenchmark) -> str:
    """Of what was measured, however the file was laid out: the same as when the file is imported by itself."""
    from sitrepd.benchmarks.service import digest_of

    return digest_of(run)


def _told_time(run: ParsedBenchmark) -> datetime | None:
    """`date` as vLLM's tool and its forks write it, 20260301-140509, by the clock of this machine."""
    if run.date is None:
        return None
    try:
        return datetime.strptime(run.date, "%Y%m%d-%H%M%S").astimezone(UTC)
    except ValueError:
        return None
