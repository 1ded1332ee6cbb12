"""Values as people type them, read into what the API takes; typer.BadParameter says what is wrong."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import typer


def text(told: str) -> str:
    """The text itself; `-` reads it from standard input."""
    return sys.stdin.read().removesuffix("\n") if told == "-" else told


def number(told: str) -> Decimal | int:
    """A number with the decimals that were typed."""
    try:
        value = Decimal(told)
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite():
        raise typer.BadParameter(f"{told!r} is no number.")
    return int(value) if told.lstrip("+-").isdigit() else value


def moment(told: str) -> str:
    """An ISO 8601 time; one without an offset is in the zone of this machine."""
    try:
        value = datetime.fromisoformat(told)
    except ValueError as error:
        raise typer.BadParameter(f"{told!r} is no time; write 2026-03-01T14:05:09 or 2026-03-01T14:05:09Z.") from error
    return (value.astimezone() if value.tzinfo is None else value).isoformat()


def loose(told: str) -> Any:
    """A JSON value where it is one (3, true, null, [1, 2]), else the text."""
    try:
        return json.loads(told, parse_float=Decimal, parse_constant=_refuse)
    except ValueError:
        return told


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


def strict_json(told: str) -> Any:
    """A JSON value, from the argument or, with `@FILE` or `-`, from a file or standard input."""
    source = _content(told)
    try:
        return json.loads(source, parse_float=Decimal, parse_constant=_refuse)
    except ValueError as error:
        raise typer.BadParameter(f"not JSON: {error}.") from error


def json_object(told: str) -> dict[str, Any]:
    """A JSON object from a file, or from standard input with `-`."""
    value = strict_json(told if told == "-" else f"@{told}")
    if not isinstance(value, dict):
        raise typer.BadParameter("a JSON object is wanted, as the API takes it.")
    return value


def _content(told: str) -> str:
    if told == "-":
        return sys.stdin.read()
    if not told.startswith("@"):
        return told
    try:
        with open(told[1:], encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{told[1:]}: {getattr(error, 'strerror', None) or error}.") from error


def pair(told: str) -> tuple[str, str]:
    """(NAME, VALUE) of NAME=VALUE."""
    name, equals, value = told.partition("=")
    if not equals or not name:
        raise typer.BadParameter(f"{told!r}: write NAME=VALUE.")
    return name, value


def pairs(told: Iterable[str]) -> dict[str, Any]:
    """{NAME: VALUE} where a value may be JSON."""
    return {name: loose(value) for name, value in map(pair, told)}


def text_pairs(told: Iterable[str]) -> dict[str, str]:
    return dict(map(pair, told))


def metric(told: str) -> tuple[str, dict[str, Any]]:
    """NAME=VALUE[:UNIT[:higher|lower]], such as output_throughput=94.0:tok/s:higher."""
    name, value = pair(told)
    value, _, unit = value.partition(":")
    unit, _, better = unit.partition(":")
    if better not in ("", "higher", "lower"):
        raise typer.BadParameter(f"{told!r}: the last part says which is better, higher or lower.")
    measure = {"value": number(value), "unit": unit or None, "better": better or None}
    return name, {key: part for key, part in measure.items() if part is not None}


def metrics(told: Iterable[str]) -> dict[str, Any]:
    return dict(map(metric, told))


def samples(told: Iterable[str]) -> dict[str, list[Any]]:
    """NAME=1.5,1.7,1.6"""
    return {name: [number(part.strip()) for part in value.split(",")] for name, value in map(pair, told)}


def phases(told: Iterable[str]) -> list[dict[str, Any]]:
    """NAME:calls=400,total_ms=8204.1,mean_ms=20.5"""
    found = []
    for one in told:
        name, _, rest = one.partition(":")
        values = {key: number(value) for key, value in (pair(part) for part in rest.split(",") if part)}
        found.append({"name": name, **values})
    return found


def points(told: Iterable[str]) -> list[dict[str, Any]]:
    """epoch=4,accept_rate=0.47,loss=1.2:nats: the place, then the metrics of that place."""
    found = []
    for one in told:
        parts = [part for part in one.split(",") if part]
        places = {name: number(value) for name, value in map(pair, parts) if name in ("epoch", "step")}
        rest = metrics(part for part in parts if pair(part)[0] not in places)
        found.append({**places, "metrics": rest})
    return found


def gpus(told: Iterable[str]) -> list[dict[str, Any]]:
    """Names in the order of the GPUs; `8xNVIDIA H200` stands for eight."""
    names: list[str] = []
    for one in told:
        count, times, name = one.partition("x")
        names += [name.strip()] * int(count) if times and count.isdigit() else [one]
    return [{"index": index, "name": name} for index, name in enumerate(names)]
