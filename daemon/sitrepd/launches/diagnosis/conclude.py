"""From what was read to the diagnosis: the order in which causes are believed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sitrepd.launches.diagnosis.beside import Beside
from sitrepd.launches.diagnosis.ends import is_dead, of_codes, of_exit
from sitrepd.launches.diagnosis.explained import of_case, of_kernel, of_warning
from sitrepd.launches.diagnosis.judge import Found, faintness, first_cause
from sitrepd.launches.diagnosis.living import of_living
from sitrepd.launches.diagnosis.model import Diagnosis
from sitrepd.launches.diagnosis.silence import of_silent_rank
from sitrepd.launches.diagnosis.standstill import of_given_up
from sitrepd.launches.diagnosis.unexplained import of_cut, of_exception, of_unknown

if TYPE_CHECKING:
    from sitrepd.launches.diagnosis.diagnose import Reading


def conclude(reading: Reading, beside: Beside) -> Diagnosis:
    """Hardware first, then the first cause in the log, then how the processes ended, then what is silent."""
    kernel = of_kernel(reading, beside)
    if kernel is not None and kernel.category == "hardware_fault":
        return kernel
    found = reading.found()
    first = first_cause(found, reading.signs)
    given_up = of_given_up(reading, first)
    if given_up is not None:
        return given_up
    if first is not None and first.case is not None and first.case.rule.standing == "primary":
        killed = of_codes(reading) if faintness(first) > 1 else None
        return killed or of_case(reading, beside, first.case)
    return _of_ends(reading, beside, first, kernel) or of_living(reading, beside, found)


def _of_ends(reading: Reading, beside: Beside, first: Found | None, kernel: Diagnosis | None) -> Diagnosis | None:
    """Where no special cause is found: what follows, unexplained exceptions, exit codes, aftermath."""
    case = first.case if first else None
    if first is not None and case is not None and case.rule.standing == "follows":
        return kernel if kernel and case.rule.category == "host_oom_killed" else of_case(reading, beside, case)
    if first is not None and case is None:
        whole = (
            of_exception(reading, first.incident) if first.incident.causes else of_cut(reading, beside, first.incident)
        )
        if whole is not None:
            return whole
    warned = of_warning(reading, beside)
    if warned is not None:
        return warned
    ended = of_codes(reading) or of_exit(reading, beside)
    if ended is not None:
        return kernel if kernel and ended.category == "host_oom_killed" else ended
    if first is not None and case is not None:
        return of_silent_rank(reading, first, kernel) or of_case(reading, beside, case)
    if first is not None or is_dead(reading, beside):
        return of_unknown(reading, first.incident if first else None)
    return None
