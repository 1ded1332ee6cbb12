"""A sweep as it is typed: a TOML or YAML file, or flags that say the same."""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from sitrepd.errors import InvalidFact

_ENDLESS = re.compile(r"-?\d[\d.]*\.\.(?:inf(?:inity)?)?|\.\.-?\d[\d.]*", re.IGNORECASE)
_RANGE = re.compile(r"(-?\d+(?:\.\d+)?)\.\.(-?\d+(?:\.\d+)?)(?:/(-?\d+(?:\.\d+)?))?")


def read_file(path: str) -> dict[str, Any]:
    """The content of the file; `-` is TOML from standard input."""
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text()
    except (OSError, UnicodeError) as error:
        raise InvalidFact(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from error
    told = _yaml(path, text) if path.endswith((".yaml", ".yml")) else _toml(path, text)
    if not isinstance(told, dict):
        raise InvalidFact(f"{path} holds no table: a sweep has [template], [parameters] and [[benchmarks]].")
    measured = told.get("benchmarks", [])
    if not isinstance(measured, list) or not all(isinstance(one, dict) for one in measured):
        raise InvalidFact(f"benchmarks in {path} are no tables: write [[benchmarks]].")
    return told


def _toml(path: str, text: str) -> Any:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidFact(f"{path} is no TOML: {error}.") from error


def _yaml(path: str, text: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise InvalidFact(f"{path}: YAML needs PyYAML (pip install 'sitrepd[yaml]'); TOML needs nothing.") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidFact(f"{path} is no YAML: {' '.join(str(error).split())}.") from error


def parameters(told: Sequence[str]) -> dict[str, Any]:
    """`NAME=1..10`, `NAME=1..9/2` and `NAME=a,b,absent`."""
    found: dict[str, Any] = {}
    for one in told:
        name, equals, text = one.partition("=")
        if not equals or not name or not text:
            raise typer.BadParameter(f"--vary {one!r}: write NAME=1..10 or NAME=VALUE,VALUE.")
        between = _RANGE.fullmatch(text)
        if between:
            ends = zip(("from", "to", "step"), between.groups(), strict=True)
            found[name] = {end: _number(part) for end, part in ends if part}
        elif _ENDLESS.fullmatch(text):
            raise typer.BadParameter(f"--vary {one!r}: it has no end; write {name}=1..10.")
        else:
            found[name] = [value(part) for part in text.split(",")]
    return found


def pairs(option: str, told: Sequence[str], *, text: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in told:
        name, equals, rest = one.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{option} {one!r}: write NAME={'EXPRESSION' if text else 'VALUE'}.")
        found[name.strip()] = rest.strip() if text else value(rest)
    return found


def value(text: str) -> Any:
    """A number, true, false, or the text itself."""
    if text in ("true", "false"):
        return text == "true"
    return _number(text)


def _number(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=str) if re.fullmatch(r"-?\d[\d.eE+-]*", text) else text
    except ValueError:
        return text


def with_caller(told: dict[str, Any], around: dict[str, Any] | None) -> dict[str, Any]:
    """The request with the surroundings of this shell; paths of the file are as seen from here."""
    template = told.get("template")
    if isinstance(template, dict) and isinstance(template.get("cwd"), str):
        told = told | {"template": template | {"cwd": os.path.abspath(os.path.expanduser(template["cwd"]))}}
    if around is None:
        return told
    return told | {"caller": {name: around[name] for name in around if name != "told_env"}}


def finite(told: Any, where: str = "") -> None:
    """TOML has inf, nan and dates, YAML has sets too; JSON has none of them."""
    if isinstance(told, dict):
        for name, one in told.items():
            finite(one, f"{where}.{name}" if where else str(name))
    elif isinstance(told, list):
        for one in told:
            finite(one, where)
    elif isinstance(told, float) and told - told != 0:
        raise InvalidFact(f"{where}: {told} is no value.")
    elif not isinstance(told, str | int | float | None):
        raise InvalidFact(f"{where}: {told!s:.40} is no text and no number: write it in quotes.")
