"""A server that nothing ended: what befell its requests, and how far it has come."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from sitrepd.launches.diagnosis.beside import Beside
from sitrepd.launches.diagnosis.explained import of_case
from sitrepd.launches.diagnosis.incidents import Incident
from sitrepd.launches.diagnosis.judge import Found, of_health, of_requests, of_threads
from sitrepd.launches.diagnosis.model import Diagnosis
from sitrepd.launches.diagnosis.parts import evidence_of, last_line, one_line, title_of
from sitrepd.launches.diagnosis.shards import of_missing_shards
from sitrepd.launches.diagnosis.silence import of_no_word
from sitrepd.launches.diagnosis.standstill import of_hang, of_slowness

if TYPE_CHECKING:
    from sitrepd.launches.diagnosis.diagnose import Reading

_REFUSED = re.compile(r"HTTP/[\d.]+\" 4\d\d\b")


def of_living(reading: Reading, beside: Beside, found: list[Found]) -> Diagnosis:
    lived = _of_life(reading, beside, found)
    if lived is not None:
        return lived
    slow = of_hang(reading) or of_slowness(reading, beside)
    if slow is not None:
        return slow
    shards = of_missing_shards(reading, beside)
    if shards is not None:
        return shards
    unsaid = of_no_word(reading)
    if unsaid is not None:
        return unsaid
    state = reading.progress.state
    if reading.signs.stop_at or beside.ended:
        state = "exited"
    phase = reading.progress.phase if state not in ("ready", "exited") else None
    return Diagnosis(state, phase or None, None, _said_of(state, phase), evidence=last_line(reading))


def _of_life(reading: Reading, beside: Beside, found: list[Found]) -> Diagnosis | None:
    """What befell requests, or the server's own health checks, of a server that went on."""
    request, thrown = of_health(found) or of_requests(found), of_threads(found)
    bare = request is None or request.case is None or request.case.rule.standing == "secondary"
    if thrown is None and request is not None and reading.signs.stop_at and _is_refusal(request):
        return None
    if thrown is not None and bare:
        told = _of_request(reading, thrown.incident)
    elif request is not None and request.case is not None:
        told = of_case(reading, beside, request.case)
    else:
        return None
    progress = reading.progress
    started = reading.starts == 0 or progress.is_ready or not progress.phase
    state = "exited" if reading.signs.stop_at else "ready" if started else progress.state
    return replace(told, state=state, phase=None if state != progress.state or state == "ready" else progress.phase)


def _is_refusal(one: Found) -> bool:
    """Whether a bare status says that a request was wrong: of a server that was asked to end this is the least."""
    return one.incident.kind == "line" and _REFUSED.search(one.incident.texts[0][1]) is not None


def _of_request(reading: Reading, incident: Incident) -> Diagnosis:
    number, cause = incident.cause
    return Diagnosis(
        "ready",
        None,
        "request_rejected",
        one_line(f"A request failed inside the server, which lives on: {cause}"),
        one_line(f"An exception while the request was taken in or answered: {cause}"),
        "Try the same request without its special options (tools, logprobs, grammars, images); the exception names the "
        "part of the server that could not handle it.",
        evidence_of(reading, incident, number),
    )


def _said_of(state: str, phase: str | None) -> str:
    if state == "ready":
        return "Nothing failed: the server is ready."
    if state == "exited":
        return "Nothing failed: the server was asked to end and ended."
    title = title_of(phase)
    if phase == "dist_init":
        return (
            f"Nothing failed so far: {title}. If it stands here for minutes, NCCL may hang: NCCL_DEBUG=INFO, "
            f"NCCL_P2P_DISABLE=1."
        )
    return f"Nothing failed so far: {title}."
