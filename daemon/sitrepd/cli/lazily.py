"""Keeps Typer from building a pydantic adapter for every parameter, which would triple the time of a call."""

from __future__ import annotations

from typing import Any, Literal, get_args, get_origin

import typer
from typer.core import TyperCommand


class _Coercion:
    """Stands in for Typer's own, which is asked where a word has to become something else than text."""

    def __init__(self, annotation: Any) -> None:
        self._annotation = annotation

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        kind = self._annotation
        # What is no text is a default of ours.
        if kind in (str, list[str]) or isinstance(value, bool | int | float):
            return value
        if get_origin(kind) is Literal:
            if value in get_args(kind):
                return value
            raise typer.BadParameter(f"{value!r} is none of {', '.join(get_args(kind))}.", ctx=ctx, param=param)
        param.__dict__["_runtime_param"] = None
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


class Lazily:
    """A mixin of commands and groups: parameters coerce lazily, where this Typer has a place for that."""

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if param.__dict__.get("_runtime_param", "") is None:
                param.__dict__["_runtime_param"] = _Coercion(param.type_descriptor.annotation)
        return params


class Command(Lazily, TyperCommand):
    """A verb."""
