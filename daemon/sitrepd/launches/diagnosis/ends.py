"""How processes ended: their exit codes, in the log and of the launch itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sitrepd.launches.diagnosis.beside import Beside
from sitrepd.launches.diagnosis.model import Diagnosis, Evidence
from sitrepd.launches.diagnosis.rules import process
from sitrepd.redact import redact_text

if TYPE_CHECKING:
    from sitrepd.launches.diagnosis.diagnose import Reading

_SEGFAULTS = (-11, -6, -7, 139, 134, 135)
_KILLS = (-9, 137)
_TERMS = (-15, 143, -2, 130)


def of_codes(reading: Reading) -> Diagnosis | None:
    """The exit code of the first child that the log says has died, where it says more than that it failed."""
    ends = [at for at in (reading.signs.stop_at, reading.signs.fell_at) if at]
    for number, text, code in reading.signs.codes:
        if ends and number >= min(ends):
            break
        told = _of_code(reading, code, number, text)
        if told is not None:
            return told
    return None


def of_exit(reading: Reading, beside: Beside) -> Diagnosis | None:
    """SGLang's launcher ends itself with SIGKILL after any crash: the signal counts only where nothing else is told."""
    code = beside.code
    if not code or reading.signs.stop_at or reading.signs.deaths:
        return None
    return _of_code(reading, code, 0, f"exit status of the process: {code}")


def _of_code(reading: Reading, code: int, number: int, text: str) -> Diagnosis | None:
    phase = reading.progress.phase or None
    evidence = tuple(
        Evidence.of(at, redact_text(what))
        for at, what in dict([(number, text), reading.last]).items()
        if at or what == text
    )
    if code in _KILLS:
        summary = f"A process of the server was killed from outside (SIGKILL){process.which_child(text)}"
        return killed(phase, summary, evidence)
    if code in _SEGFAULTS:
        name = {-11: "SIGSEGV", 139: "SIGSEGV", -6: "SIGABRT", 134: "SIGABRT"}.get(code, "SIGBUS")
        fix = (
            "PYTHONFAULTHANDLER=1 shows the Python line at the next crash; another --attention-backend; check that "
            "torch, sglang-kernel and flashinfer belong together (pip check)."
        )
        cause = f"The process died of {name} inside a compiled library, not of a Python exception."
        return Diagnosis(
            "failed", phase, "segfault", f"A process crashed in native code ({name})", cause, fix, evidence
        )
    return None


def killed(phase: str | None, summary: str, evidence: tuple[Evidence, ...]) -> Diagnosis:
    """A process that got SIGKILL, which the OOM killer is the usual sender of."""
    return Diagnosis("failed", phase, "host_oom_killed", summary, process.KILLED_CAUSE, process.KILLED_FIX, evidence)


def is_dead(reading: Reading, beside: Beside) -> bool:
    stop = reading.signs.stop_at
    if any(not stop or at < stop for at, _ in reading.signs.deaths):
        return True
    return not stop and beside.code not in (0, *_TERMS)
