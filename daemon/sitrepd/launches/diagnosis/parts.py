"""The parts that diagnoses are put together of."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sitrepd.launches.diagnosis.incidents import Incident
from sitrepd.launches.diagnosis.model import MOST_EVIDENCE, Evidence
from sitrepd.launches.engines.base import PHASE
from sitrepd.redact import redact_text

if TYPE_CHECKING:
    from sitrepd.launches.diagnosis.diagnose import Reading


def who(incident: Incident) -> str:
    return f" [{incident.key}]" if re.fullmatch(r"(?:[A-Z_]+\d+ ?)+|rank\d+", incident.key) else ""


def phase_of(reading: Reading, incident: Incident) -> str | None:
    if incident.who == "warmup":
        return "warmup"
    if incident.phase in PHASE:
        return incident.phase
    return None if incident.was_ready else reading.progress.phase or None


def title_of(phase: str | None) -> str:
    """What a server in this phase is doing."""
    return PHASE[phase].title.lower() if phase and phase in PHASE else "starting"


def evidence_of(reading: Reading, incident: Incident, line: int) -> tuple[Evidence, ...]:
    """Where it was announced, the line that matched, the exception, and the first line of the fall after it."""
    told: dict[int, str] = {}
    texts = dict(reversed(incident.texts))
    if line in texts:
        told[line] = texts[line]
    for number, text in incident.causes[:3]:
        told.setdefault(number, text)
    if not told and incident.texts:
        told.update(incident.texts[:1])
    for number, text in reading.signs.deaths:
        if number >= incident.number:
            told.setdefault(number, text)
            break
    return tuple(Evidence.of(number, redact_text(text)) for number, text in sorted(told.items()))[:MOST_EVIDENCE]


def last_line(reading: Reading) -> tuple[Evidence, ...]:
    number, text = reading.last
    return (Evidence.of(number, redact_text(text)),) if number else ()


def one_line(text: str) -> str:
    flat = " ".join(redact_text(text).split())
    return flat if len(flat) <= 300 else flat[:299] + "…"
