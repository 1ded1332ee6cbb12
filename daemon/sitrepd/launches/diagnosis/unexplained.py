"""What no rule explains: an exception of no known kind, a traceback that breaks off, a log that does not say why."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from sitrepd.launches.diagnosis.beside import Beside
from sitrepd.launches.diagnosis.explained import of_case
from sitrepd.launches.diagnosis.incidents import Incident, is_of_engine, is_of_worker
from sitrepd.launches.diagnosis.judge import explain
from sitrepd.launches.diagnosis.model import Diagnosis, Evidence
from sitrepd.launches.diagnosis.parts import evidence_of, one_line, phase_of, who
from sitrepd.redact import redact_text

if TYPE_CHECKING:
    from sitrepd.launches.diagnosis.diagnose import Reading

_CHILD_FAILED = re.compile(r"sigquit from a child|SIGQUIT received|Failed core proc|[Ee]ngine core (?:init|proc)")
_OF_KERNELS = re.compile(r"/(?:site|dist)-packages/(?:flashinfer|sgl_kernel|flash_attn|deep_gemm|aiter|vllm|sglang)/")
"""The place in the code that an exception of a kernel names itself."""
_NEAR_LINES = 60
_LITERAL = re.compile(r"\"([^\"]*)\"")


def of_exception(reading: Reading, incident: Incident) -> Diagnosis:
    """An exception of no known kind, in a worker or in the program itself."""
    number, cause = incident.cause
    cause = cause.rstrip("`") if cause.endswith("```") or cause.count("`") % 2 else cause
    in_worker = is_of_worker(incident) or _child_failed(reading, incident)
    where = next((frame for frame in reversed(incident.frames) if "site-packages/torch" not in frame), "")
    return Diagnosis(
        "failed",
        phase_of(reading, incident),
        "scheduler_exception" if in_worker or is_of_engine(incident) or _OF_KERNELS.search(cause) else "unknown",
        one_line(f"{'A worker' if in_worker else 'The server'} failed: {cause}{who(incident)}"),
        one_line(f"An exception that is none of the known kinds{f', at {where}' if where else ''}: {cause}"),
        "Look for this exception in the engine's issues; another release or fewer special flags often avoids it.",
        evidence_of(reading, incident, number),
    )


def _child_failed(reading: Reading, incident: Incident) -> bool:
    """Whether the launcher tells soon afterwards that a child of it has failed."""
    return any(
        0 <= at - incident.last <= _NEAR_LINES and _CHILD_FAILED.search(text) for at, text in reading.signs.deaths
    )


def of_cut(reading: Reading, beside: Beside, incident: Incident) -> Diagnosis | None:
    """A traceback that breaks off before its exception: who announced it may be enough, or the place in the code."""
    if incident.frames and "in resolve_trust_remote_code" in incident.frames[-1]:
        case = explain(_as_if_said(incident, "requires trust_remote_code"), reading.known)
        return replace(of_case(reading, beside, case), evidence=_last_place(incident)) if case else None
    raised = _raised(incident)
    if raised:
        says = _as_if_said(incident, raised)
        says.frames, says.code = incident.frames, incident.code
        case = explain(says, reading.known)
        if case is not None and case.rule.standing == "primary":
            return replace(of_case(reading, beside, case), evidence=_last_place(incident))
    if incident.who != "warmup":
        return None
    words = _as_if_said(incident, "Initialization failed. warmup error: " + (incident.frames or [""])[-1])
    words.who = "warmup"
    case = explain(words, reading.known)
    return of_case(reading, beside, case) if case else None


def _as_if_said(incident: Incident, text: str) -> Incident:
    """The incident as it were if one line had told it."""
    said = Incident(incident.number, incident.key, "fatal", phase=incident.phase, kind="line", last=incident.last)
    said.texts.append((incident.number, text))
    return said


def _raised(incident: Incident) -> str:
    """What the statement says that raises, where the log breaks off before the exception itself."""
    begin = next((at for at in range(len(incident.code) - 1, -1, -1) if incident.code[at].startswith("raise ")), None)
    return "" if begin is None else "".join(_LITERAL.findall(" ".join(incident.code[begin:])))


def _last_place(incident: Incident) -> tuple[Evidence, ...]:
    """The last line of a traceback that breaks off."""
    return (Evidence.of(incident.last, redact_text((incident.code or incident.frames)[-1])),)


def of_unknown(reading: Reading, incident: Incident | None) -> Diagnosis:
    number = incident.number if incident else (reading.signs.deaths[:1] or [reading.last])[0][0]
    told = [*(incident.texts[:2] if incident else ()), *reading.signs.deaths[:2]] or [reading.last]
    return Diagnosis(
        "failed",
        phase_of(reading, incident) if incident else reading.progress.phase or None,
        "unknown",
        "The server failed, and the log does not say why",
        "The log ends or is cut before the first exception is named.",
        "Look at the beginning of the log and at the logs of the other ranks; start again with all output in one file.",
        tuple(Evidence.of(at, redact_text(text)) for at, text in told if at) or (Evidence(number, ""),),
    )
