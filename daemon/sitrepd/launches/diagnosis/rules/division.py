"""How a model is divided between ranks, and what each rank is given of the machine."""

from __future__ import annotations

import re

from sitrepd.launches.diagnosis.case import Case, Rule
from sitrepd.launches.diagnosis.incidents import is_of_engine
from sitrepd.launches.diagnosis.rules._make import rule

_ASSERTED = re.compile(r"^assert (?P<what>.*(?:% .*(?:tp|world|parallel\w*)_?\w*size|(?:tp|world)_?size\w* % ).*)")
_LAST_LINES = 3


def category(case: Case) -> str:
    return "scheduler_exception" if is_of_engine(case.incident) else "unknown"


def _asserted(case: Case) -> str:
    """The statement that compares a size of the model with the number of ranks."""
    for line in case.incident.code[-_LAST_LINES:]:
        found = _ASSERTED.match(line)
        if found:
            return found["what"].partition(", ")[0].rstrip(" (,")
    return ""


def _said(case: Case) -> str:
    return _asserted(case) or case.incident.cause[1][:200]


def _is_of_a_part(case: Case) -> bool:
    """A tensor cut for a rank, where the code loads its own part."""
    return (
        case.stage == "load"
        and re.search(r"in (?:\w*weight_loader\w*|load_\w*weight\w*)$", case.frames, re.M) is not None
    )


_SUMMARY = "The model does not divide between so many ranks (tensor-parallel size {tp})"
_FIX = (
    "{flag_tp} with a size that divides num_attention_heads of the model's config.json, and that divides "
    "num_key_value_heads or is a multiple of it (now {tp})."
)


def _cause(case: Case) -> str:
    return f"Each rank takes an equal part of heads, hidden size and vocabulary, and these do not divide: {_said(case)}"


MODEL: tuple[Rule, ...] = (
    rule(
        category,
        r"(?P<number>\d+) is not divisible by (?P<by>\d+)"
        r"|divisible by (?:the )?(?:tensor[ _](?:model[ _])?parallel|attention TP|(?:attn_)?tp|TP)[ _=]?\w*size"
        r"|heads? .{0,60}(?:not |be )divisible by \w*(?:tp|TP|world|parallel)",
        _SUMMARY,
        _cause,
        _FIX,
        on="block",
    ),
    rule(category, r"^AssertionError", _SUMMARY, _cause, _FIX, on="block", needs=lambda case: bool(_asserted(case))),
    rule(
        category,
        r"start \(\d+\) \+ length \(\d+\) exceeds dimension size \(\d+\)|start out of range \(expected to be in range",
        _SUMMARY,
        lambda case: f"A rank's part lies beyond the end of a tensor of the checkpoint: {case.incident.cause[1][:200]}",
        _FIX,
        on="block",
        needs=_is_of_a_part,
    ),
)

MACHINE: tuple[Rule, ...] = (
    rule(
        category,
        r"SGLANG_CPU_OMP_THREADS_BIND is not set|SGLANG_CPU_OMP_THREADS_BIND.{0,80}(?:should|must|does not)",
        "More ranks than NUMA nodes, and no cores are set for each of them",
        "On a processor SGLang gives each rank a NUMA node of its own, and there are fewer than tp x pp x dp.",
        "SGLANG_CPU_OMP_THREADS_BIND='0-15|16-31', the cores of each rank with | between them, for {tp} ranks; with "
        "--max-total-tokens, as their memory is not known beforehand. Or fewer ranks.",
        on="block",
    ),
)
