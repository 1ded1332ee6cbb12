"""The sweeps slice, as the registry sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sitrepd.facts import Noun
from sitrepd.slices import Slice, late
from sitrepd.sweeps import models as m

if TYPE_CHECKING:
    from sitrepd.runtime import Runtime
    from sitrepd.services import Service

SWEEP = Noun(
    "sweep", "sweeps", "W", m.Sweep, m.SweepCreate, m.SweepUpdate, m.SweepPublic,
    "A planned set of trials.",
)  # fmt: skip
TRIAL = Noun(
    "trial", "trials", "", m.Trial, m.TrialCreate, m.TrialUpdate, m.TrialPublic,
    "One launch of a sweep with its benchmarks.",
)  # fmt: skip


def _services(runtime: Runtime) -> Sequence[Service]:
    from sitrepd.sweeps.service import Sweeps

    return (Sweeps(runtime),)


SLICE = Slice(
    "sweeps",
    (SWEEP, TRIAL),
    routers=late("sitrepd.sweeps.routes", "routers"),
    services=_services,
    report=late("sitrepd.sweeps.report", "report"),
    restore=late("sitrepd.sweeps.restore", "restore"),
)
