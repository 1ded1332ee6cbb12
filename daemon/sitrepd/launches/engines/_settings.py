"""The `server_args=` line: the ServerArgs(...) repr and the dict that has followed it, secrets left out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from sitrepd.redact import is_secret_name, redact_json

_CALL = re.compile(r"[A-Za-z_][\w.]*\((?P<inside>.*)\)", re.DOTALL)
_OPEN, _CLOSE = "([{<", ")]}>"


def parse_server_args(text: str) -> dict[str, Any]:
    """`text` begins behind `server_args=`; a line cut short gives the settings that are whole."""
    body = text.strip()
    if body.startswith("{"):
        body = body[1:].removesuffix("…").removesuffix("}")
    elif "(" in body:
        body = body[body.index("(") + 1 :].removesuffix("…").removesuffix(")")
    else:
        return {}
    settings: dict[str, Any] = redact_json(dict(_pairs(body)))
    return settings


def _pairs(body: str) -> Iterator[tuple[str, object]]:
    for part in _split(body, ","):
        for separator in ("=", ":"):
            name, *rest = _split(part, separator, once=True)
            key = name.strip().strip("'\"")
            if rest and key.isidentifier():
                value = _value(rest[0].strip())
                if not _is_secret(key, value):
                    yield key, value
                break


def _is_secret(key: str, value: object) -> bool:
    return is_secret_name(key) and not isinstance(value, int | float | None)


def _value(text: str) -> object:
    """Python values as they are, nested records as dicts, anything else (an enum, an object) as its text."""
    call = _CALL.fullmatch(text)
    if call:
        return dict(_pairs(call["inside"]))
    if text.startswith("{") and text.endswith("}"):
        return dict(_pairs(text[1:-1]))
    try:
        return _jsonable(ast.literal_eval(text))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def _jsonable(value: object) -> object:
    if isinstance(value, list | tuple | set | frozenset):
        return [_jsonable(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def _split(text: str, separator: str, *, once: bool = False) -> list[str]:
    """Split where no bracket or quote is open."""
    parts, start, depth, quote, skip = [], 0, 0, "", False
    for place, letter in enumerate(text):
        if skip:
            skip = False
        elif quote:
            skip = letter == "\\"
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in _OPEN:
            depth += 1
        elif letter in _CLOSE:
            depth -= 1
        elif letter == separator and depth == 0:
            parts.append(text[start:place])
            start = place + 1
            if once:
                break
    return [*parts, text[start:]]
