"""Somebody's own JSON, JSONL or CSV, read by a mapping that says which of its fields are what."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any

from sitrepd.benchmarks.metrics import Metric
from sitrepd.benchmarks.parsers.documents import documents
from sitrepd.benchmarks.parsers.result import BenchmarkFileError, ParsedBenchmark
from sitrepd.benchmarks.parsers.values import decimal_of, run_of
from sitrepd.benchmarks.running.mappings import source

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_WANTED = "the fields that the mapping names"


def read_mapped(data: bytes, filename: str, mapping: Mapping[str, Any]) -> list[ParsedBenchmark]:
    """Whole or not at all; raises BenchmarkFileError for the first field that is missing or is no number."""
    found = list(_rows(data, filename, mapping))
    if not found:
        raise BenchmarkFileError(filename, None, "it has no rows", "at least one run")
    return [_run(row, filename, line, mapping) for line, row in found]


def _rows(data: bytes, filename: str, mapping: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Line numbers and objects: of CSV the rows by their titles, of JSON the objects or the items of its list."""
    if _is_csv(data, filename):
        yield from _csv(data, filename)
        return
    for line, document in documents(data, filename):
        if not mapping.get("rows"):
            yield line, document
            continue
        items = _at(document, str(mapping["rows"]))
        if not isinstance(items, list) or not all(isinstance(one, Mapping) for one in items):
            raise BenchmarkFileError(filename, line, f"{mapping['rows']} is no list of objects", _WANTED)
        yield from ((line, one) for one in items)


def _is_csv(data: bytes, filename: str) -> bool:
    if filename.lower().endswith((".csv", ".tsv")):
        return True
    return data.lstrip()[:1] not in (b"{", b"[") and not filename.lower().endswith((".json", ".jsonl"))


def _csv(data: bytes, filename: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise BenchmarkFileError(filename, line, "it is not UTF-8", "CSV in UTF-8") from None
    head = text.partition("\n")[0]
    separator = max(",;\t", key=head.count)
    reader = csv.DictReader(io.StringIO(text), delimiter=separator, strict=True)
    try:
        for row in reader:
            if None in row or None in row.values():
                told = "more" if None in row else "fewer"
                wrong = f"the row has {told} fields than there are titles"
                raise BenchmarkFileError(filename, reader.line_num, wrong, "a field for each title")
            yield reader.line_num, {str(key).strip(): _told(str(value)) for key, value in row.items()}
    except csv.Error as error:
        raise BenchmarkFileError(filename, reader.line_num, f"not CSV: {error}", "CSV with a line of titles") from error


def _told(text: str) -> Any:
    text = text.strip()
    return decimal_of(text) if _NUMBER.fullmatch(text) else text


def _run(row: Mapping[str, Any], filename: str, line: int, mapping: Mapping[str, Any]) -> ParsedBenchmark:
    units: dict[str, str] = {}
    metrics = [(name, _metric(row, name, told, filename, line, units)) for name, told in mapping["metrics"].items()]
    label = _at(row, mapping["label"]) if mapping.get("label") else None
    run = run_of(
        "command", None if label in (None, "") else str(label), metrics, filename, line,
        config=_named(row, mapping.get("config")), workload=_named(row, mapping.get("workload")), needs="",
    )  # fmt: skip
    unfinite = [name for name, value in metrics if not value.is_finite()]
    if unfinite:
        raise BenchmarkFileError(filename, line, f"{unfinite[0]} is not a finite number", "a number that was measured")
    named = tuple(Metric(one.name, one.value, units.get(one.name, one.unit), one.better) for one in run.metrics)
    return replace(run, metrics=named)


def _metric(row: Mapping[str, Any], name: str, told: str, filename: str, line: int, units: dict[str, str]) -> Decimal:
    path, factor, unit = source(told)
    value = _at(row, path)
    if value is None:
        fields = ", ".join(sorted(map(str, row))[:8])
        raise BenchmarkFileError(filename, line, f"it has no {path} (for {name}); it has {fields}", _WANTED)
    if isinstance(value, str):
        value = _as_number(value)
    if not isinstance(value, Decimal):
        raise BenchmarkFileError(filename, line, f"{path} (for {name}) is no number", "a bare number, without a unit")
    if unit:
        units[name] = unit
    return value * Decimal(factor) if factor else value


def _as_number(text: str) -> Decimal | None:
    try:
        return decimal_of(text.strip())
    except InvalidOperation:
        return None


def _named(row: Mapping[str, Any], told: Mapping[str, str] | None) -> dict[str, Any]:
    return {name: _at(row, path) for name, path in (told or {}).items()}


def _at(value: Any, path: str) -> Any:
    """What stands at `results.0.tps`; a key with a dot in it is found as it is. None where there is nothing."""
    if isinstance(value, Mapping) and path in value:
        return value[path]
    head, dot, rest = path.partition(".")
    if isinstance(value, Mapping):
        found = value.get(head)
    elif isinstance(value, list) and head.isdigit():
        found = value[int(head)] if int(head) < len(value) else None
    else:
        return None
    return _at(found, rest) if dot else found
