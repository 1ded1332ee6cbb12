"""Sizes that a launch has now, as flags some steps lower or higher."""

from __future__ import annotations

from sitrepd.launches.diagnosis.case import Case


def lower_fraction(case: Case) -> str:
    now, flag = _fraction(case), case.known.flag("mem")
    if now is None:
        return f"{flag} 0.8 (lower than now)"
    return f"{flag} {max(0.05, round(now - 0.05, 2)):g} (now {now:g})"


def higher_fraction(case: Case) -> str:
    now, flag = _fraction(case), case.known.flag("mem")
    if now is not None and 0 < now < 0.95:
        return f"{flag} {min(0.97, round(now + 0.05, 2)):g} (now {now:g})"
    return f"{flag} higher, up to 0.95"


def _fraction(case: Case) -> float | None:
    """The share of a GPU's memory that the log or the command tells."""
    try:
        return float(case.known.get("mem_fraction_static"))
    except (TypeError, ValueError):
        return None


def more_gpus(case: Case) -> str:
    """Twice the size that the log or the command tells."""
    tp, flag = str(case.known.get("tp_size") or ""), case.known.flag("tp")
    return f"{flag} {int(tp) * 2} (now {tp})" if tp.isdigit() and int(tp) else f"a higher {flag}"


def half(count: str) -> str:
    return f"{int(count) // 2} (now {count})" if count else "lower"
