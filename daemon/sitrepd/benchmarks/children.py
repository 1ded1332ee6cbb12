"""Rows that belong to a benchmark, profile or reference, to and from the shapes of the API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from sitrepd.benchmarks import models as m
from sitrepd.decimals import number_text
from sitrepd.shapes import Measure


def metric_rows(table: type[m.MetricColumns], metrics: Mapping[str, Measure], **more: Any) -> list[Any]:
    return [
        table(
            name=name, text=number_text(told.value), value=float(told.value), unit=told.unit, better=told.better, **more
        )
        for name, told in metrics.items()
    ]


def measures(rows: Iterable[m.MetricColumns]) -> dict[str, Measure]:
    return {row.name: Measure(value=Decimal(row.text), unit=row.unit, better=row.better) for row in rows}


def sample_rows(samples: Mapping[str, Sequence[Decimal]]) -> list[Any]:
    return [
        m.BenchmarkSample(name=name, texts=[number_text(value) for value in values]) for name, values in samples.items()
    ]


def samples(rows: Iterable[m.BenchmarkSample]) -> dict[str, list[Decimal]]:
    return {row.name: [Decimal(text) for text in row.texts] for row in rows}


def profile_rows(phases: Sequence[m.ProfilePhase]) -> list[Any]:
    return [
        m.ProfilePhaseRow(
            name=phase.name,
            group=phase.group,
            share=_text(phase.share),
            calls=phase.calls,
            total_ms=_text(phase.total_ms),
            mean_ms=_text(phase.mean_ms),
        )
        for phase in phases
    ]


def profile_phases(rows: Iterable[m.ProfilePhaseRow]) -> list[m.ProfilePhase]:
    return [
        m.ProfilePhase(
            name=row.name,
            group=row.group,
            share=_decimal(row.share),
            calls=row.calls,
            total_ms=_decimal(row.total_ms),
            mean_ms=_decimal(row.mean_ms),
        )
        for row in rows
    ]


def _text(value: Decimal | None) -> str | None:
    return None if value is None else number_text(value)


def _decimal(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text)
