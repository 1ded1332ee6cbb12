"""The model of speculative decoding for the runs of a comparison: its points, its costs by a profile, and its chart."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sitrepd.benchmarks.compare import Row
from sitrepd.benchmarks.curves import Curve, curves
from sitrepd.benchmarks.decide import ACCEPTED, Decision, mean
from sitrepd.benchmarks.drawing import Drawing
from sitrepd.benchmarks.labels import ALGORITHM, STEPS, TOPK
from sitrepd.benchmarks.profiles.found import mean_ms, total_ms
from sitrepd.benchmarks.speculative import MOST_STEPS, Costs, Model, Point, fitted
from sitrepd.errors import InvalidFact

_PLAIN = ("median_itl_ms", "mean_itl_ms", "median_tpot_ms", "mean_tpot_ms")
_VERIFY, _DRAFT, _EXTEND = (
    re.compile(pattern, re.IGNORECASE) for pattern in (r"verif", r"^(?!.*(?:extend|prefill|verif)).*draft", r"extend")
)
Phases = Sequence[Mapping[str, Any]]


def model_of(
    told: Decision,
    acceptance: float | None = None,
    phases: Phases | None = None,
    steps: int | None = None,
    plain_ms: float | None = None,
) -> Model:
    """InvalidFact says what is missing; `phases` are of a profile that was made with so many steps."""
    baseline = told.comparison.baseline
    if baseline is None:
        raise InvalidFact("A speed-up needs a baseline without speculation, and no run is marked as the baseline.")
    if _steps(baseline) is not None:
        raise InvalidFact(f"The baseline {baseline.ids[0]} speculates itself; name another one.")
    points, notes = _points(told, baseline)
    if not points:
        raise InvalidFact(
            f"No run that is compared has a chain of drafts: {STEPS} in its configuration, and no {TOPK} above 1."
        )
    costs = None if phases is None else costs_of(phases, steps, plain_ms or _plain(baseline))
    found = fitted(points, acceptance, costs, MOST_STEPS)
    if isinstance(found, str):
        raise InvalidFact(found)
    return Model(**{**vars(found), "notes": (*found.notes, *notes)})


def _points(told: Decision, baseline: Row) -> tuple[list[Point], list[str]]:
    """One for each number of steps: the fastest configuration."""
    rows = [row for row in told.comparison.rows if row.comparable and not row.superseded and row.why is None]
    rows = [row for row in rows if not row.marked] or rows
    found: dict[int, list[Point]] = {}
    lower = told.comparison.better == "lower"
    for row in rows:
        steps = _steps(row)
        if steps is not None and row is not baseline and row.value and baseline.value:
            ratio = float(baseline.value / row.value if lower else row.value / baseline.value)
            accepted = next((one for name in ACCEPTED if (one := mean(row, name)) is not None), None)
            known = accepted if accepted is not None and 1 <= accepted <= steps + 1 else None
            found.setdefault(steps, []).append(Point(steps, ratio, known, row.ids))
    several = sorted(steps for steps, points in found.items() if len(points) > 1)
    notes = []
    if several:
        which = ", ".join(map(str, several))
        notes.append(f"Several configurations have {which} steps; the fastest of each is taken.")
    return [max(found[steps], key=lambda point: point.speedup) for steps in sorted(found)], notes


def _steps(row: Row) -> int | None:
    config = row.runs[0].config
    steps, topk = config.get(STEPS), config.get(TOPK)
    if ALGORITHM in config and config[ALGORITHM] is None:
        return None
    is_chain = topk is None or topk == 1
    return steps if isinstance(steps, int) and not isinstance(steps, bool) and steps > 0 and is_chain else None


def _plain(baseline: Row) -> float | None:
    """Milliseconds of a plain decode step, which gives one token to each request."""
    return next((value for name in _PLAIN if (value := mean(baseline, name)) is not None), None)


def costs_of(phases: Phases, steps: int | None, plain_ms: float | None) -> Costs:
    """From the times of draft, verify and extend; verifying is taken to cost the same however many drafts there are."""
    verify, draft, extend = (_phase(phases, pattern) for pattern in (_VERIFY, _DRAFT, _EXTEND))
    if verify is None or draft is None:
        names = ", ".join(str(phase["name"]) for phase in phases[:8])
        raise InvalidFact(f"The profile has no phases of draft and verify; it has {names}.")
    if steps is None or steps < 1:
        raise InvalidFact("With how many steps the profile was made is not known; say so with --profile-steps.")
    if plain_ms is None:
        raise InvalidFact(
            "How long a plain decode step takes is not known: the baseline has no inter-token latency. Say it with "
            "--plain-ms."
        )
    calls = verify.get("calls")
    each = [0.0 if one is None else _each(one, calls) for one in (verify, draft, extend)]
    return Costs((each[0] + each[2]) / plain_ms, each[1] / steps / plain_ms, "the profile")


def _phase(phases: Phases, pattern: re.Pattern[str]) -> Mapping[str, Any] | None:
    return next((phase for phase in phases if pattern.search(str(phase["name"]))), None)


def _each(phase: Mapping[str, Any], steps: int | None) -> float:
    """Milliseconds by speculative step, however often a phase is called in one."""
    total, each = total_ms(phase), mean_ms(phase)
    if total is not None and steps:
        return total / steps
    if each is None:
        raise InvalidFact(f"The phase {phase['name']!r} of the profile has no time.")
    return each


def drawn(model: Model) -> Drawing:
    """The expected speed-up over the steps, with what was measured."""
    lines = [Curve("expected", [(float(row.steps), row.speedup) for row in model.rows])]
    measured = [(float(row.steps), row.measured.speedup) for row in model.rows if row.measured is not None]
    lines.append(Curve("measured", measured, joined=False))
    title = "Speed-up by speculative steps, expected and measured"
    return curves(title, STEPS, "speed-up", lines, (1.0, "no speculation"))
