"""The findings slice, as the registry sees it."""

from __future__ import annotations

from sitrepd.facts import Noun
from sitrepd.findings import models as m
from sitrepd.findings.service import supersede
from sitrepd.slices import Slice, late

FINDING = Noun(
    "finding", "findings", "F", m.Finding, m.FindingCreate, m.FindingUpdate, m.FindingPublic,
    "Something established: root cause, constraint, decision, rejected option, hypothesis, observation.",
    settled=supersede,
)  # fmt: skip

SLICE = Slice("findings", (FINDING,), report=late("sitrepd.findings.report", "report"))
