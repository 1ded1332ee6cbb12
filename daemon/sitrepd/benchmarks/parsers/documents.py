"""The JSON objects of a file with one a line, or of one JSON text over several lines."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from sitrepd.benchmarks.parsers.result import BenchmarkFileError
from sitrepd.benchmarks.parsers.values import decimal_of

_WANTED = "the JSONL that sglang.bench_serving --output-file writes, one object a line"
_EXCERPT = 40
_LONGEST_LITERAL = len("-Infinity")


def documents(data: bytes, filename: str) -> list[tuple[int, dict[str, Any]]]:
    """Line numbers and objects, numbers as Decimal (also Infinity and NaN); raises BenchmarkFileError."""
    text = _text(data, filename)
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise BenchmarkFileError(filename, None, "the file is empty", _WANTED)
    try:
        values = [(number, _load(line)) for number, line in lines]
    except (ValueError, RecursionError):
        values = _one_text(text, lines, filename)
    for number, value in values:
        if not isinstance(value, dict):
            kind = "a list" if isinstance(value, list) else f"the value {_excerpt(str(value))}"
            raise BenchmarkFileError(filename, number, f"this is {kind}, not an object", _WANTED)
    return values


def _one_text(text: str, lines: list[tuple[int, str]], filename: str) -> list[tuple[int, Any]]:
    """The objects of an indented file; where it is none either, the error of the first line that is not JSON."""
    first = lines[0][0]
    try:
        value = _load(text)
    except (ValueError, RecursionError):
        raise _error(lines, filename) from None
    return [(first, item) for item in value] if isinstance(value, list) else [(first, value)]


def _error(lines: list[tuple[int, str]], filename: str) -> BenchmarkFileError:
    for number, line in lines:
        try:
            _load(line)
        except json.JSONDecodeError as error:
            if number == lines[-1][0] and _is_cut_short(line, error):
                return BenchmarkFileError(
                    filename, number, f"the line is cut short after {len(line)} characters, inside the object",
                    "the whole file; copy it again when the benchmark is done",
                )  # fmt: skip
            wrong = f"not JSON: {error.msg} at character {error.pos + 1}, before {_excerpt(line[error.pos :])}"
            return BenchmarkFileError(filename, number, wrong, _WANTED)
        except (ValueError, RecursionError) as error:
            return BenchmarkFileError(filename, number, f"not readable as JSON: {_excerpt(str(error))}", _WANTED)
    raise AssertionError("one of the lines failed before")


def _is_cut_short(line: str, error: json.JSONDecodeError) -> bool:
    """Whether the line could go on to an object: the parser wanted more at its very end, or within the last literal."""
    near_end = error.msg.startswith("Unterminated string") or len(line.rstrip()) - error.pos <= _LONGEST_LITERAL
    return line.lstrip().startswith("{") and near_end and error.msg != "Extra data"


def _text(data: bytes, filename: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise BenchmarkFileError(
            filename, line, f"byte {error.start} of the file, {data[error.start]:#04x}, is not UTF-8", _WANTED
        ) from None


def _load(text: str) -> Any:
    return json.loads(text, parse_float=decimal_of, parse_int=decimal_of, parse_constant=Decimal)


def _excerpt(text: str) -> str:
    text = "".join(c if c.isprintable() else "?" for c in text)
    return repr(text if len(text) <= _EXCERPT else text[:_EXCERPT] + "…") if text else "the end of the line"
