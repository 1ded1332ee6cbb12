"""Phases and sizes of a launch, to and from the shapes of the API."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from sitrepd.launches import models as m


def phase_rows(told: Sequence[m.Phase]) -> list[Any]:
    return [
        m.LaunchPhase(
            name=phase.name,
            started_at=phase.started_at,
            ended_at=phase.ended_at,
            progress=_float(phase.progress),
            done=phase.done,
            total=phase.total,
            unit=phase.unit,
            elapsed_s=_float(phase.elapsed_s),
        )
        for phase in told
    ]


def phases(rows: Iterable[m.LaunchPhase]) -> list[m.Phase]:
    return [
        m.Phase(
            name=row.name,
            started_at=row.started_at,
            ended_at=row.ended_at,
            progress=_decimal(row.progress),
            done=row.done,
            total=row.total,
            unit=row.unit,
            elapsed_s=_decimal(row.elapsed_s),
        )
        for row in rows
    ]


def sizes(rows: Iterable[m.LaunchSize]) -> list[dict[str, Any]]:
    return [row.model_dump(exclude={"id", "launch_id"}) for row in rows]


def _float(value: Decimal | None) -> float | None:
    return None if value is None else float(value)


def _decimal(value: float | None) -> Decimal | None:
    return None if value is None else Decimal(repr(value))
