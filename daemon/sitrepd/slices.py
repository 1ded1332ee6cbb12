"""The registry: what each slice offers. A package with a `slice.py` is a slice; nothing else names it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sitrepd
from sitrepd.facts import Noun

if TYPE_CHECKING:
    from fastapi import APIRouter
    from sqlmodel import Session
    from starlette.routing import BaseRoute

    from sitrepd.runtime import Runtime
    from sitrepd.sections import Report, Section
    from sitrepd.services import Service


def _nothing(*_: Any) -> Sequence[Any]:
    return ()


def late(module: str, name: str) -> Callable[..., Any]:
    """A function that is imported when it is first called: a daemon at rest stays smaller, and starts sooner."""

    def call(*told: Any) -> Any:
        return getattr(importlib.import_module(module), name)(*told)

    return call


@dataclass(frozen=True)
class Slice:
    """One room of the house; without `routers` it has those that every noun has."""

    name: str
    nouns: tuple[Noun, ...] = ()
    routers: Callable[[], Sequence[APIRouter]] | None = None
    services: Callable[[Runtime], Sequence[Service]] = _nothing
    report: Callable[[Report], Sequence[Section]] = _nothing

    restore: Callable[[Section], Iterable[dict[str, Any]]] = _nothing
    """The reverse of `report`: session-file lines from a section, for what it calls otherwise than the facts do."""

    busy: Callable[[Runtime], Sequence[BaseRoute]] = _nothing
    """Routes that are asked for so often that they are matched before all others."""

    def make_routers(self) -> Sequence[APIRouter]:
        """Its own routers, or those that every noun has."""
        if self.routers is not None:
            return self.routers()
        from sitrepd.routing import fact_routes

        return [fact_routes(noun) for noun in self.nouns]


@dataclass(frozen=True)
class Registry:
    """All slices, and their nouns by word, prefix and line type."""

    slices: tuple[Slice, ...]

    @cached_property
    def nouns(self) -> tuple[Noun, ...]:
        return tuple(noun for part in self.slices for noun in part.nouns)

    @cached_property
    def by_word(self) -> dict[str, Noun]:
        return {noun.word: noun for noun in self.nouns}

    @cached_property
    def by_prefix(self) -> dict[str, Noun]:
        return {noun.prefix: noun for noun in self.nouns if noun.prefix}

    @cached_property
    def by_line(self) -> dict[str, Noun]:
        return {noun.line_type: noun for noun in self.nouns if noun.portable}

    def exists(self, db: Session, noun: Noun, number: int) -> bool:
        return db.get(noun.table, number) is not None


def slice_modules() -> list[str]:
    """Module names of all slices, in the order of their names."""
    root = Path(sitrepd.__file__).parent
    packages = (info.name for info in pkgutil.iter_modules([str(root)]) if info.ispkg)
    return [f"sitrepd.{name}" for name in sorted(packages) if (root / name / "slice.py").is_file()]


def import_models() -> None:
    """Import all tables, for the migrations to compare with."""
    for name in slice_modules():
        importlib.import_module(f"{name}.models")


def load_registry() -> Registry:
    return Registry(tuple(importlib.import_module(f"{name}.slice").SLICE for name in slice_modules()))
