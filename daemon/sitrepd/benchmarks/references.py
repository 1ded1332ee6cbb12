"""Published results beside one's own, and what differs between them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from sitrepd.benchmarks.groups import frozen
from sitrepd.benchmarks.metrics import Better, Metric, describe, percent_text
from sitrepd.decimals import number_text

ALIKE = (frozenset({"accept_length", "acc_length", "accept_len"}),)


@dataclass(frozen=True)
class Own:
    """A run or a training run of one's own: what it measured, and with what.

    `behind` are the settings of its launch, which are asked where the run itself does not tell.
    """

    id: str
    label: str
    metrics: Mapping[str, Metric]
    config: Mapping[str, Any] = field(default_factory=dict)
    workload: Mapping[str, Any] = field(default_factory=dict)
    model: str | None = None
    hardware: str | None = None
    behind: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Published:
    id: str
    name: str
    metrics: Mapping[str, Metric]
    config: Mapping[str, Any] = field(default_factory=dict)
    workload: Mapping[str, Any] = field(default_factory=dict)
    model: str | None = None
    hardware: str | None = None
    source: str | None = None


@dataclass(frozen=True)
class Side:
    """One metric of both; `difference` is one's own to the published, such as "-12.3 %"."""

    metric: str
    theirs: str
    ours: str
    unit: str | None
    difference: str | None
    verdict: str | None
    id: str
    label: str


@dataclass(frozen=True)
class Beside:
    """`differs` are settings with both values, `unknown` those that one side alone tells, `missing` their metrics."""

    reference: str
    name: str
    sides: tuple[Side, ...]
    differs: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    why: str | None = None


def beside(published: Published, own: Sequence[Own]) -> Beside:
    """By each metric that both have, one's own best; what differs is told of the run that most metrics are of."""
    if not published.metrics:
        return Beside(published.id, published.name, (), why="It tells no figures.")
    chosen = [(metric, *found) for metric in published.metrics.values() if (found := _best(metric, own)) is not None]
    if not chosen:
        names = ", ".join(published.metrics)
        return Beside(published.id, published.name, (), why=f"Nothing of one's own has measured {names}.")
    sides = tuple(_side(theirs, ours, mine) for theirs, ours, mine in chosen)
    ids = [mine.id for _, _, mine in chosen]
    most = max(dict.fromkeys(ids), key=ids.count)
    run = next(mine for _, _, mine in chosen if mine.id == most)
    differs, unknown = _differences(published, run)
    missing = tuple(name for name in published.metrics if name not in {side.metric for side in sides})
    return Beside(published.id, published.name, sides, tuple(differs), tuple(unknown), missing)


def _best(theirs: Metric, own: Sequence[Own]) -> tuple[Metric, Own] | None:
    names = next((alike for alike in ALIKE if theirs.name in alike), frozenset({theirs.name}))
    found = [(metric, mine) for mine in own for name, metric in mine.metrics.items() if name in names]
    found = [one for one in found if not (one[0].unit and theirs.unit and one[0].unit != theirs.unit)]
    if not found:
        return None
    better = _better(theirs, found[0][0])
    if better is None:
        return found[-1]
    pick = max if better == "higher" else min
    return pick(found, key=lambda one: one[0].value)


def _better(theirs: Metric, ours: Metric) -> Better | None:
    return theirs.better or ours.better or describe(theirs.name)[1]


def _side(theirs: Metric, ours: Metric, mine: Own) -> Side:
    change: Decimal | None = (ours.value / theirs.value - 1) * 100 if theirs.value else None
    better = _better(theirs, ours)
    verdict = None
    if better is not None and ours.value != theirs.value:
        verdict = "better" if (ours.value > theirs.value) == (better == "higher") else "worse"
    return Side(
        theirs.name, number_text(theirs.value), number_text(ours.value), ours.unit or theirs.unit,
        None if change is None else percent_text(change), verdict, mine.id, mine.label,
    )  # fmt: skip


def _differences(published: Published, mine: Own) -> tuple[list[str], list[str]]:
    differs, unknown = [], []
    for name, theirs, ours in _pairs(published, mine):
        if theirs is None and ours is None:
            continue
        if theirs is None:
            unknown.append(f"{name} {_text(ours)} here, not told there")
        elif ours is None:
            unknown.append(f"{name} {_text(theirs)} there, not recorded here")
        elif frozen(theirs) != frozen(ours) and _plain(name, theirs) != _plain(name, ours):
            differs.append(f"{name} {_text(ours)} here, {_text(theirs)} there")
    return differs, unknown


def _pairs(published: Published, mine: Own) -> Iterator[tuple[str, Any, Any]]:
    """Model and hardware, the settings that either tells, and of the workload those that the publisher tells."""
    yield "model", published.model, mine.model
    yield "hardware", published.hardware, mine.hardware
    for name in dict.fromkeys([*published.config, *mine.config]):
        yield name, _setting(published.config, name), _setting({**mine.behind, **mine.config}, name)
    for name in dict.fromkeys([*published.workload, *(mine.workload if published.workload else ())]):
        yield name, _setting(published.workload, name), _setting(mine.workload, name)


def _setting(settings: Mapping[str, Any], name: str) -> Any:
    """A setting that was told to be nothing, such as no speculation, is told all the same."""
    if name not in settings:
        return None
    return "none" if settings[name] is None else settings[name]


def _text(value: Any) -> str:
    return str(value)


def _plain(name: str, value: Any) -> str:
    """Text without what is written now so, now so; of a model the last part of its path, letters and digits alone."""
    text = _text(value).casefold()
    if name in ("model", "model_path"):
        text = re.sub(r"[^a-z0-9]", "", text.rstrip("/").rpartition("/")[2])
    return text
