"""The launches slice, as the registry sees it."""

from __future__ import annotations

from sitrepd.facts import Child, Noun
from sitrepd.launches import models as m
from sitrepd.launches.children import phase_rows, phases, sizes
from sitrepd.slices import Slice

LAUNCH = Noun(
    "launch", "launches", "L", m.Launch, m.LaunchRecord, m.LaunchUpdate, m.LaunchPublic,
    "One start of a server process: command, environment, phases, outcome.",
    children=(
        Child("phases", m.LaunchPhase, "launch_id", phase_rows, phases),
        Child("sizes", m.LaunchSize, "launch_id", None, sizes),
    ),
)  # fmt: skip

SLICE = Slice("launches", (LAUNCH,))
