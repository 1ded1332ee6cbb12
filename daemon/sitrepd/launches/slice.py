"""The launches slice, as the registry sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sitrepd.facts import Child, Noun
from sitrepd.launches import models as m
from sitrepd.launches.children import phase_rows, phases, sizes
from sitrepd.slices import Slice, late

if TYPE_CHECKING:
    from sitrepd.runtime import Runtime
    from sitrepd.services import Service

LAUNCH = Noun(
    "launch", "launches", "L", m.Launch, m.LaunchRecord, m.LaunchUpdate, m.LaunchPublic,
    "One start of a server process: command, environment, phases, outcome.",
    children=(
        Child("phases", m.LaunchPhase, "launch_id", phase_rows, phases),
        Child("sizes", m.LaunchSize, "launch_id", None, sizes),
    ),
)  # fmt: skip


def _services(runtime: Runtime) -> Sequence[Service]:
    from sitrepd.launches.discovery.service import Discovery
    from sitrepd.launches.service import Launches

    launches = Launches(runtime)
    return launches, Discovery(runtime, launches)


SLICE = Slice(
    "launches",
    (LAUNCH,),
    routers=late("sitrepd.launches.routes", "routers"),
    services=_services,
    report=late("sitrepd.launches.report", "report"),
    restore=late("sitrepd.launches.restore", "restore"),
)
