"""What is known of a living launch from moment to moment, and is not worth a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveLaunch:
    """`remaining_s` counts to ready ("start") or to the end of the phase alone ("phase"); None where nobody knows."""

    state: str
    phase: str | None = None
    title: str | None = None
    progress: float | None = None
    done: int | None = None
    total: int | None = None
    unit: str | None = None
    elapsed_s: float = 0.0
    phase_elapsed_s: float | None = None
    remaining_s: float | None = None
    remaining_low_s: float | None = None
    remaining_high_s: float | None = None
    remaining_of: Literal["start", "phase"] | None = None
    pid: int | None = None
    log_problem: str | None = None
    suspect: str | None = None
