"""Nothing secret is stored: secrets become references `${NAME}`, which the environment of the next launch resolves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

from sitrepd.redaction.names import (
    Strength,
    is_option,
    is_placeholder,
    is_plural_secret_name,
    is_secret_name,
    is_secret_value,
    name_strength,
    reference_name,
)
from sitrepd.redaction.rules import Span, find_secrets
from sitrepd.redaction.shell import find_command_secrets, replace, substitute_command, unquoted_value

__all__ = [
    "is_secret_name",
    "redact_argv",
    "redact_command",
    "redact_env",
    "redact_json",
    "redact_part",
    "redact_text",
    "secret_references",
]


def redact_text(text: str) -> str:
    """The text of a log line, message or file with every secret replaced; twice is the same as once."""
    spans = _text_secrets(text)
    return replace(text, ((s.start, s.end, _reference(s.name)) for s in spans)) if spans else text


def redact_part(data: bytes, start: int, end: int) -> str:
    """`data[start:end]` as text; what stands around it decides what is secret, so that no piece of a secret is left."""
    text = data.decode("utf-8", "surrogateescape")
    parts: list[bytes] = []
    for span in _in_bytes(text, _text_secrets(text)):
        if span.end > start and span.start < end:
            parts += [data[start : max(span.start, start)], _reference(span.name).encode("utf-8", "surrogateescape")]
            start = min(span.end, end)
    return b"".join([*parts, data[start:end]]).decode("utf-8", "replace")


def _in_bytes(text: str, spans: Iterable[Span]) -> Iterator[Span]:
    """The spans, from left to right, with the places that they have in the bytes of the text."""
    done = at = 0
    for span in spans:
        first = at + _size(text[done : span.start])
        done, at = span.end, first + _size(text[span.start : span.end])
        yield span._replace(start=first, end=at)


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))


def redact_command(command: str) -> str:
    """A shell command line with every secret replaced; bash expands each reference where the secret stood."""
    spans = _command_secrets(command)
    return substitute_command(command, spans) if spans else command


def redact_argv(argv: Sequence[str]) -> list[str]:
    """The arguments of a process with every secret replaced."""
    redacted = list(argv)
    for index, spans in _argv_secrets(argv):
        redacted[index] = replace(argv[index], ((s.start, s.end, _reference(s.name)) for s in spans))
    return redacted


def redact_env(env: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process; a value that is secret, or holds a secret, becomes `${NAME}` of its own name."""
    return {name: _reference(name) if _is_secret_variable(name, value) else value for name, value in env.items()}


def redact_json(value: Any) -> Any:
    """A JSON value with every secret replaced, by the keys that hold one and by what strings look like."""
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, Mapping):
        redacted = {_redact_key(k) if isinstance(k, str) else k: _redact_member(k, v) for k, v in value.items()}
        if isinstance(value.get("name"), str) and isinstance(value.get("value"), str):
            redacted["value"] = _redact_member(value["name"], value["value"])
        return redacted
    if isinstance(value, list | tuple):
        if any(isinstance(item, str) and is_option(item) for item in value) and _all_text(value):
            return redact_argv(value)
        return [redact_json(item) for item in value]
    return value


def secret_references(
    original: str | Sequence[str] | Mapping[str, str], redacted: str | Sequence[str] | Mapping[str, str]
) -> dict[str, str]:
    """The values by the names that stand for them in `redacted`, which a function above made from `original`."""
    if isinstance(original, Mapping):
        references = redact_env(original)
        return {name: value for name, value in original.items() if references[name] == _reference(name) != value}
    if not isinstance(original, str):
        return {s.name: original[i][s.start : s.end] for i, spans in _argv_secrets(original) for s in spans}
    if redacted == redact_text(original):
        return {s.name: original[s.start : s.end] for s in _text_secrets(original)}
    return {s.name: unquoted_value(original, s) for s in _command_secrets(original)}


def _text_secrets(text: str) -> list[Span]:
    return _numbered(text, find_secrets(text), {})


def _command_secrets(command: str) -> list[Span]:
    return _numbered(command, find_command_secrets(command), {})


def _argv_secrets(argv: Sequence[str]) -> list[tuple[int, list[Span]]]:
    found: list[tuple[int, list[Span]]] = []
    values: dict[str, str] = {}
    for index, argument in enumerate(argv):
        option = argv[index - 1] if index else ""
        spans = _argument_secrets(argument, option)
        if spans:
            found.append((index, _numbered(argument, spans, values)))
    return found


def _argument_secrets(argument: str, option: str) -> list[Span]:
    name, equals, value = argument.partition("=")
    if is_option(option) and "=" not in option and not is_option(argument) and _told_secret(option, argument):
        return [Span(0, len(argument), reference_name(option))]
    if equals and name.lstrip("-").replace("-", "_").isidentifier() and _told_secret(name, value):
        return [Span(len(name) + 1, len(argument), reference_name(name))]
    return find_secrets(argument)


def _told_secret(name: str, value: str) -> bool:
    strength = name_strength(name)
    return bool(strength) and is_secret_value(value, strength, told=True)


def _is_secret_variable(name: str, value: str) -> bool:
    return _told_secret(name, value) or bool(_text_secrets(value))


@lru_cache(maxsize=8192)
def _redact_key(key: str) -> str:
    """Settings have the same hundreds of names in each file."""
    return redact_text(key)


def _redact_member(key: object, value: Any) -> Any:
    if not isinstance(key, str):
        return redact_json(value)
    if isinstance(value, str) and reference_name(key).endswith("AUTHORIZATION"):
        return redact_text(f"authorization: {value}").partition(": ")[2]
    if isinstance(value, str) and _told_secret(key, value):
        return _reference(reference_name(key))
    if (
        isinstance(value, int | float | Decimal)
        and not isinstance(value, bool)
        and name_strength(key) is Strength.STRONG
        and value > 9
    ):
        return _reference(reference_name(key))
    if isinstance(value, list | tuple) and is_plural_secret_name(key) and _all_text(value):
        name = reference_name(key)
        return [v if is_placeholder(v) else _reference(f"{name}_{i}") for i, v in enumerate(value, 1)]
    return redact_json(value)


def _all_text(values: Sequence[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _numbered(text: str, spans: list[Span], values: dict[str, str]) -> list[Span]:
    """The spans, with `_2` and so on after a name that stands for another value already."""
    numbered = []
    for span in spans:
        secret = text[span.start : span.end]
        name, count = span.name, 1
        while values.setdefault(name, secret) != secret:
            count += 1
            name = f"{span.name}_{count}"
        numbered.append(span._replace(name=name))
    return numbered


def _reference(name: str) -> str:
    return "${" + name + "}"
