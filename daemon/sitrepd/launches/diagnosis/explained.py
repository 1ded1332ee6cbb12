"""What a rule explains: in the log, of a warning, and in the kernel's messages."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sitrepd.launches.diagnosis.beside import Beside
from sitrepd.launches.diagnosis.case import Case
from sitrepd.launches.diagnosis.ends import is_dead
from sitrepd.launches.diagnosis.incidents import Incident
from sitrepd.launches.diagnosis.judge import explain
from sitrepd.launches.diagnosis.model import Diagnosis
from sitrepd.launches.diagnosis.parts import evidence_of, one_line, phase_of, who
from sitrepd.redact import redact_text

if TYPE_CHECKING:
    from sitrepd.launches.diagnosis.diagnose import Reading


def of_case(reading: Reading, beside: Beside, case: Case) -> Diagnosis:
    category = case.render(case.rule.category)
    incident = case.incident
    summary, cause, fix = (case.render(text) for text in (case.rule.summary, case.rule.cause, case.rule.fix))
    if category in ("gpu_occupied", "memory_kv_pool", "port_in_use"):
        fix = _with_holders(fix, beside)
    return Diagnosis(
        "failed",
        phase_of(reading, incident),
        category,
        one_line(summary + who(incident)),
        redact_text(cause),
        redact_text(fix),
        evidence_of(reading, incident, case.line),
    )


def _with_holders(fix: str, beside: Beside) -> str:
    if not beside.gpu_memory:
        return fix
    told = ", ".join(f"{pid} ({size / 1024**3:.1f} GiB)" for pid, size in beside.gpu_memory.items())
    return f"{fix} On the GPUs now: {told}."


def of_warning(reading: Reading, beside: Beside) -> Diagnosis | None:
    """What was only warned of is the cause where the start has gone no further since."""
    if reading.warned is None or reading.warned.case is None or reading.signs.stop_at or reading.progress.is_ready:
        return None
    if reading.signs.goes_on_between(reading.warned.number, 1 << 62):
        return None
    told = of_case(reading, beside, reading.warned.case)
    return told if is_dead(reading, beside) else replace(told, state=reading.progress.state)


def of_kernel(reading: Reading, beside: Beside) -> Diagnosis | None:
    """Faults of the hardware and the OOM killer, as the kernel reported them."""
    for text in beside.kernel_messages:
        incident = Incident(0, "", weight="fatal", kind="line", phase=reading.progress.phase)
        incident.texts.append((0, text.strip()[:2000]))
        case = explain(incident, reading.known)
        if case is not None and case.render(case.rule.category) in ("hardware_fault", "host_oom_killed"):
            return of_case(reading, beside, case)
    return None
