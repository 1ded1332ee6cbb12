"""A start that stands still, was given up, or takes far longer than before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sitrepd.launches.diagnosis.beside import Beside
from sitrepd.launches.diagnosis.judge import Found
from sitrepd.launches.diagnosis.model import Diagnosis, Evidence
from sitrepd.launches.diagnosis.parts import last_line, title_of
from sitrepd.launches.diagnosis.rules import distributed
from sitrepd.launches.engines.base import PHASE
from sitrepd.launches.suspicion import is_slow
from sitrepd.redact import redact_text

if TYPE_CHECKING:
    from sitrepd.launches.diagnosis.diagnose import Reading

_HANG_S = 300.0
_HANGS = "NCCL's set-up never returned: a rank is missing, or the transport between the GPUs or nodes hangs."
_OF_THE_END = ("nccl_error", "unknown", "host_oom_killed", "segfault")


def of_given_up(reading: Reading, first: Found | None) -> Diagnosis | None:
    """Whoever waited for the server has ended its wait; where it stood then tells whether it hung."""
    said = reading.signs.gave_up
    if said is None or not _is_first(reading, said[0], first):
        return None
    phase = reading.progress.phase
    hung = phase == "dist_init"
    title = title_of(phase)
    return Diagnosis(
        "failed",
        phase or None,
        "nccl_hang" if hung else "unknown",
        "The ranks have not found each other in the time that was allowed for the start"
        if hung
        else f"The server was not ready in the time that was allowed for its start: it stood at {title}",
        _HANGS if hung else "Whoever started the server gave up; the log does not show that the server itself failed.",
        distributed.HANG if hung else "A longer time-out; py-spy dump --pid PID shows where it stands meanwhile.",
        (Evidence.of(said[0], redact_text(said[1])),),
    )


def _is_first(reading: Reading, gave_up: int, first: Found | None) -> bool:
    """Whether the start stood still when the wait for it ended, and only the fall of its processes came after."""
    if reading.progress.is_ready or reading.signs.progress_at > gave_up:
        return False
    if first is None:
        return True
    return first.number > gave_up and (first.case is None or first.case.rule.category in _OF_THE_END)


def of_hang(reading: Reading) -> Diagnosis | None:
    """The ranks set up their connection for minutes, and whoever waited gave up or still waits."""
    minutes = round(reading.progress.stood_s / 60)
    if reading.progress.phase != "dist_init" or reading.progress.stood_s < _HANG_S:
        return None
    return Diagnosis(
        "failed" if reading.signs.stop_at else "starting",
        "dist_init",
        "nccl_hang",
        f"The ranks have not found each other: {minutes} min in the distributed init",
        _HANGS,
        distributed.HANG,
        last_line(reading),
    )


def of_slowness(reading: Reading, beside: Beside) -> Diagnosis | None:
    """A phase that takes far longer than it did before is worth a word, and is no failure."""
    phase, elapsed_s = reading.progress.phase, reading.progress.elapsed_s
    usual_s = beside.usual_s.get(phase, 0.0)
    if reading.signs.stop_at or not is_slow(elapsed_s, usual_s):
        return None
    title = PHASE[phase].title if phase in PHASE else phase
    return Diagnosis(
        reading.progress.state,
        phase,
        "slow_load",
        f"{title} takes {elapsed_s:.0f} s, and took {usual_s:.0f} s before",
        "Nothing failed, but this phase is far slower than earlier: a cold page cache, a slower disk, a busy machine, "
        "or a hang.",
        "iostat -x 1 and free -g show disk and cache; py-spy dump --pid PID shows where it stands.",
        last_line(reading),
    )
