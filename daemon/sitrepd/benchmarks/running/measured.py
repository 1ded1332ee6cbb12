"""From the files of a run that has ended to the benchmark that is stored of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from sitrepd.benchmarks.metrics import Metric, metric
from sitrepd.benchmarks.parsers import BenchmarkFileError, ParsedBenchmark, read_results
from sitrepd.benchmarks.running.during import During
from sitrepd.benchmarks.running.tools import DIARY
from sitrepd.redact import redact_text

_MOST_BYTES = 64 << 20
_LAST_LINES = 3
_NO_SETTINGS = "The file does not say which settings the server had."
_LIFE = "accept_length is the average since the server started, not of this run."


def result_in(output: Path, printed: Path) -> tuple[bytes, str]:
    """What a run has written: its file, else the files of its folder, else what it printed; ("", …) for nothing."""
    if output.is_dir():
        files = sorted(path for path in output.rglob("*.json") if path.is_file())
        named = [path for path in files if path.name.startswith("profile_export")]
        for path in named or files:
            return _read(path), path.name
    if output.is_file():
        return _read(output), output.name
    return _read(printed), "printed output"


def _read(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_MOST_BYTES)
    except OSError:
        return b""


def parse(data: bytes, name: str, mapping: Mapping[str, Any] | None) -> list[ParsedBenchmark]:
    """Raises BenchmarkFileError."""
    if not data.strip():
        raise BenchmarkFileError(name, None, "it is empty or missing", "the result that the tool writes at its end")
    if mapping is not None:
        from sitrepd.benchmarks.parsers.mapped import read_mapped

        return read_mapped(data, name, mapping)
    return read_results(data, name)


def last_words(printed: Path) -> str:
    """The last lines of what it printed, on one line, without secrets."""
    lines = [
        line for line in _read(printed).decode("utf-8", "replace").replace("\r", "\n").splitlines() if line.strip()
    ]
    return redact_text(" / ".join(line.strip() for line in lines[-_LAST_LINES:]))[-600:]


def said(folder: Path) -> str:
    """The last that a tool printed, and the last error of its own log, which may be all that tells the cause."""
    printed = last_words(folder / "output.log")
    errors = list(_logged(_read(folder / DIARY).splitlines()))
    own = f" Its own log has last: {redact_text(errors[-1])[:600]}" if errors else ""
    return f" It printed last: {printed or 'nothing'}{own}"


def _logged(lines: Sequence[bytes]) -> Iterator[str]:
    """The exceptions of a log that loguru wrote as JSON, one object a line; the last may be cut short."""
    for line in lines:
        try:
            told = json.loads(line)["record"]["exception"]
            yield f"{told['type']}: {told['value']}"
        except (ValueError, KeyError, TypeError):
            continue


def completed(
    run: ParsedBenchmark,
    total: int | None,
    during: During,
    asked: Mapping[str, Any],
    settings: Mapping[str, Any] | None,
) -> ParsedBenchmark:  # fmt: skip
    """With the server's own figures in place of those of its whole life, what was asked for, and its settings where
    the tool does not know them."""
    from sitrepd.benchmarks.parsers.sglang import server_config
    from sitrepd.benchmarks.service import digest_of

    known = run.config or server_config(settings or {})
    own = {one.name: one for one in during.metrics}
    kept = [one for one in run.metrics if one.name not in own]
    failed = _failed(run, total)
    notes = [note for note in run.notes if not (note == _LIFE and "accept_length" in own)]
    notes = [note for note in notes if not (note == _NO_SETTINGS and known)]
    if during.source:
        notes.append(f"{', '.join(own)}: of this run, by {during.source}.")
    workload = {**{name: plain_value(value) for name, value in (asked.get("told") or {}).items()}, **run.workload}
    if total is not None:
        workload.setdefault("num_prompts", total)
    return replace(
        run,
        config={**known, **(asked.get("config") or {})},
        workload={**workload, **(asked.get("workload") or {})},
        metrics=(*kept, *own.values(), *failed),
        notes=tuple(notes),
        written=digest_of(run),
    )


def plain_value(told: str) -> Any:
    """A number where it reads as one."""
    try:
        return int(told)
    except ValueError:
        return told


def _failed(run: ParsedBenchmark, total: int | None) -> Iterator[Metric]:
    """Requests that were sent and not completed, where the file does not say."""
    by_name = {one.name: one.value for one in run.metrics}
    done = by_name.get("completed")
    if "failed" not in by_name and done is not None and total is not None and total > done:
        yield metric("failed", Decimal(total) - done)


def name_of(runs: Sequence[ParsedBenchmark], asked: Mapping[str, Any], launch: str, launch_name: str | None) -> str:
    """As asked; else by its settings; else as its server is called."""
    from sitrepd.benchmarks.labels import config_label

    return asked.get("name") or config_label(runs[0].config) or launch_name or launch
