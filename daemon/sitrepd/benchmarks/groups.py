"""Runs by configuration, grouped as they come in: what the comparison is made from."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any, NamedTuple

from sitrepd.benchmarks.labels import config_label, distinguishing_keys
from sitrepd.benchmarks.metrics import Better, Metric, describe

_ATOMS = frozenset((str, int, float, bool, type(None)))
_REPEAT = re.compile(r"[\s,;:–-]*\(?(?:(?:run|repeat|rep|trial|attempt)\s*#?\d+|#\d+)\)?$", re.IGNORECASE)


class Run(NamedTuple):
    """One benchmark as the comparison sees it; `id` and `launch` are public ids, `at` is None where it was not told.

    `marks` are what speaks against it: requests that failed, a kernel compiled meanwhile, a GPU that throttled.
    """

    id: str
    metrics: Mapping[str, Metric]
    name: str | None = None
    baseline: bool = False
    comparable: bool = True
    superseded: bool = False
    config: Mapping[str, Any] = MappingProxyType({})
    workload: Mapping[str, Any] = MappingProxyType({})
    launch: str | None = None
    note: str | None = None
    marks: tuple[str, ...] = ()
    tool: str | None = None
    artifact: str | None = None
    at: datetime | None = None


@dataclass(slots=True, eq=False)
class Group:
    """The repeats of one configuration under one workload; `marked_at` is the place of the last that is a baseline.

    It only ever grows: what was made of it holds until its next run.
    """

    runs: list[Run]
    metrics: list[Metric]
    unit: str | None
    workload: Hashable
    counts: bool
    marked: bool = False
    """Something speaks against its runs, which are set apart from the other repeats."""
    total: Decimal = Decimal(0)
    mean: Decimal = Decimal(0)
    marked_at: int = -1
    row: tuple[Hashable, Any] | None = None
    """The row that was made of it last, after what else that depends on."""

    def add(self, run: Run, metric: Metric) -> None:
        self.runs.append(run)
        self.metrics.append(metric)
        self.total += metric.value
        self.mean = self.total / len(self.metrics)
        self.row = None


class Groups:
    """All runs of a comparison by one metric, in their order; adding one more costs the same however many there are."""

    def __init__(self, metric: str) -> None:
        self.metric = metric
        self.by_id: dict[str, Run] = {}
        self.marked: list[Run] = []
        self.absent: list[str] = []
        self.told_better: Better | None = None
        self._groups: dict[Hashable, Group] = {}
        # Settings that are one object, which stays alive in a run, are looked at once.
        self._frozen: dict[int, Hashable] = {}
        self._keys: tuple[int, list[str]] = (0, [])

    def __iter__(self) -> Iterator[Group]:
        return iter(self._groups.values())

    def add(self, run: Run) -> None:
        place = len(self.by_id)
        self.by_id[run.id] = run
        if run.baseline:
            self.marked.append(run)
        metric = run.metrics.get(self.metric)
        if metric is None:
            self.absent.append(run.id)
            return
        self.told_better = self.told_better or metric.better
        group = self._group(run, metric)
        group.add(run, metric)
        if run.baseline:
            group.marked_at = place

    def _group(self, run: Run, metric: Metric) -> Group:
        unit = metric.unit or describe(self.metric)[0]
        workload = self._freeze(run.workload)
        told = repeated(run.name).casefold()
        one = run.id if not run.config and not told else None  # nothing says what it is a repeat of
        marked = bool(run.marks)
        key = (self._freeze(run.config), workload, told, one, unit, run.comparable, run.superseded, marked)
        found = self._groups.get(key)
        if found is None:
            counts = run.comparable and not run.superseded
            found = self._groups[key] = Group([], [], unit, workload, counts, marked)
        return found

    def _freeze(self, settings: Mapping[str, Any]) -> Hashable:
        found = self._frozen.get(id(settings))
        if found is None:
            found = self._frozen[id(settings)] = frozen(dict(settings))
        return found

    def label(self, group: Group) -> str:
        """As told, otherwise by the settings in which it differs from the others."""
        first = group.runs[0]
        alike = all(run.name == first.name for run in group.runs)
        name = first.name if alike else repeated(first.name)
        return name or config_label(first.config, self._distinguishing()) or config_label(first.config) or first.id

    def _distinguishing(self) -> list[str]:
        count, keys = self._keys
        if count != len(self._groups):
            distinct = {id(group.runs[0].config): group.runs[0].config for group in self}
            keys = distinguishing_keys(list(distinct.values()))
            self._keys = (len(self._groups), keys)
        return keys


def repeated(name: str | None) -> str:
    """A name without what tells repeats apart (`run 2`, `#3`)."""
    return _REPEAT.sub("", name) if name else ""


def frozen(value: Any) -> Hashable:
    """Equal for the same settings: in any order, and with 4, 4.0 and Decimal("4") alike."""
    if isinstance(value, dict):
        return tuple((key, value[key] if type(value[key]) in _ATOMS else frozen(value[key])) for key in sorted(value))
    if isinstance(value, list | tuple):
        return tuple(frozen(item) for item in value)
    return float(value) if isinstance(value, Decimal) else value
