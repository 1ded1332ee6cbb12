"""The agents slice, as the registry sees it."""

from __future__ import annotations

from sitrepd.agents import models as m
from sitrepd.facts import Noun
from sitrepd.slices import Slice

COMMAND = Noun(
    "command", "commands", "X", m.Command, m.CommandCreate, m.CommandUpdate, m.CommandPublic,
    "A shell command that an agent or a person ran, with what came of it.",
)  # fmt: skip
COMPACTION = Noun(
    "compaction", "compactions", "", m.Compaction, m.CompactionCreate, m.CompactionUpdate, m.CompactionPublic,
    "A client's own summary of its conversation, and what it lost.",
)  # fmt: skip

SLICE = Slice("agents", (COMMAND, COMPACTION))
