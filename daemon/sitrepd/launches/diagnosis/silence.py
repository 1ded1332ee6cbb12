"""Processes that ended without a word, which only others tell of: the ranks that lost them, or what outlives them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sitrepd.launches.diagnosis.ends import killed
from sitrepd.launches.diagnosis.incidents import Incident
from sitrepd.launches.diagnosis.judge import Found
from sitrepd.launches.diagnosis.model import Diagnosis
from sitrepd.launches.diagnosis.parts import evidence_of, last_line, phase_of, title_of
from sitrepd.launches.diagnosis.prefixes import is_rank

if TYPE_CHECKING:
    from sitrepd.launches.diagnosis.diagnose import Reading

_LOST = re.compile(
    r"[Cc]onnection (?:closed|reset) by (?:remote )?peer|remote process exited|recvValue failed|Socket closed"
)
_MOST_NAMED = 4


def of_silent_rank(reading: Reading, first: Found, kernel: Diagnosis | None) -> Diagnosis | None:
    """A rank that was killed: only its partners tell, by the connection that they have lost."""
    ranks = _silent_ranks(reading, first)
    if not ranks or kernel is not None:
        return kernel if ranks else None
    incident = first.incident
    return killed(
        phase_of(reading, incident),
        f"A rank of the server was killed from outside (SIGKILL): {_named(ranks)} ended without a word{_by(incident)}",
        evidence_of(reading, incident, incident.cause[0]),
    )


def _silent_ranks(reading: Reading, first: Found) -> list[str]:
    """The ranks that said nothing of their end, where the log tells all of it and a partner of theirs was lost.

    SGLang's ranks print their exceptions, and their stacks at a crash: what prints nothing was killed.
    """
    lost = any(_LOST.search(text) for _, text in first.incident.texts)
    if not lost or not reading.starts or not reading.signs.fell_at or len(reading.ranks) < _several(reading):
        return []
    told = {
        one.incident.key for one in reading.found() if one.incident.kind == "traceback" or one.number >= first.number
    }
    silent = [rank for rank in reading.ranks if rank not in told]
    return silent if len(silent) < len(reading.ranks) else []


def _several(reading: Reading) -> int:
    """How many ranks write to this log at the least; more than there can be where another node has some of them."""
    nodes = reading.known.get("nnodes") or 1
    sizes = (reading.known.get(name) or 1 for name in ("tp_size", "pp_size"))
    count = 1
    for size in (nodes, *sizes):
        if not str(size).isdigit():
            return 1 << 30
        count *= int(size)
    return 1 << 30 if int(nodes) > 1 else max(2, count)


def _named(ranks: Sequence[str]) -> str:
    """`TP1`, `one of TP1, TP2, TP3`"""
    shown = ", ".join(ranks[:_MOST_NAMED]) + (", …" if len(ranks) > _MOST_NAMED else "")
    return shown if len(ranks) == 1 else f"one of {shown}"


def _by(incident: Incident) -> str:
    return f", and {incident.key} lost its connection to it" if is_rank(incident.key) else ""


def of_no_word(reading: Reading) -> Diagnosis | None:
    """Python's tracker of shared memory outlives its processes, and speaks last where they were killed."""
    number, text = reading.last
    phase = reading.progress.phase
    if not number or not phase or reading.signs.stop_at or "resource_tracker: " not in text:
        return None
    summary = f"The server was ended from outside without a word, while {title_of(phase)}"
    return killed(phase, summary, last_line(reading))
