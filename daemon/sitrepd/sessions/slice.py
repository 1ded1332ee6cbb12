"""The sessions slice, as the registry sees it."""

from __future__ import annotations

from sitrepd.facts import Noun
from sitrepd.sessions import models as m
from sitrepd.slices import Slice, late

SESSION = Noun(
    "session", "sessions", "S", m.SessionRow, m.SessionCreate, m.SessionUpdate, m.SessionPublic,
    "One long piece of work with a goal.", in_session=False,
)  # fmt: skip
MESSAGE = Noun(
    "message", "messages", "", m.Message, m.MessageCreate, m.MessageUpdate, m.MessagePublic,
    "A message of the agent's conversation, by its number there.", unsearched=("role",),
)  # fmt: skip
DIRECTIVE = Noun(
    "directive", "directives", "D", m.Directive, m.DirectiveCreate, m.DirectiveUpdate, m.DirectivePublic,
    "A standing wish of the user, verbatim.",
)  # fmt: skip
NEXT_STEP = Noun(
    "next_step", "next-steps", "N", m.NextStep, m.NextStepCreate, m.NextStepUpdate, m.NextStepPublic,
    "Something still to do, with its order and what it waits for.",
)  # fmt: skip
ARTIFACT = Noun(
    "artifact", "artifacts", "A", m.Artifact, m.ArtifactCreate, m.ArtifactUpdate, m.ArtifactPublic,
    "A file or directory that matters, on a host, with its role.",
)  # fmt: skip


SLICE = Slice(
    "sessions",
    (SESSION, MESSAGE, DIRECTIVE, NEXT_STEP, ARTIFACT),
    routers=late("sitrepd.sessions.routes", "routers"),
    report=late("sitrepd.sessions.report", "report"),
    restore=late("sitrepd.sessions.restore", "restore"),
)
