"""The kinds of server whose start Sitrep understands."""

from __future__ import annotations

from collections.abc import Sequence

from sitrepd.launches.engines.base import Engine
from sitrepd.launches.engines.generic import GenericEngine
from sitrepd.launches.engines.sglang import SglangEngine
from sitrepd.launches.engines.vllm import VllmEngine

_KNOWN: tuple[Engine, ...] = (SglangEngine(), VllmEngine())

__all__ = ["engine_for", "engine_named"]


def engine_for(argv: Sequence[str], ready_url: str | None = None, ready_pattern: str | None = None) -> Engine:
    """The engine that recognises the command, else a generic one, for which the two last arguments are."""
    for engine in _KNOWN:
        if engine.recognises(argv):
            return engine
    return GenericEngine(ready_url, ready_pattern)


def engine_named(name: str, ready_url: str | None = None, ready_pattern: str | None = None) -> Engine:
    """By the `name` that was stored with a launch; raises KeyError for one that does not exist."""
    if name == GenericEngine.name:
        return GenericEngine(ready_url, ready_pattern)
    return {engine.name: engine for engine in _KNOWN}[name]
