"""`sitrep finding`: what was established, with its evidence."""

from __future__ import annotations

from sitrepd.cli.nouns import Field, NounTable, add_verbs
from sitrepd.cli.verbs import noun

KINDS = ("root_cause", "constraint", "decision", "rejected", "hypothesis", "observation")
STATUSES = ("open", "confirmed", "refuted", "superseded")
TABLE = NounTable(
    "finding",
    "findings",
    (
        Field("kind", "What kind of finding it is.", choices=KINDS, argument=True),
        Field("title", "What was found, in a sentence.", argument=True),
        Field("detail", "More of it."),
        Field("reason", "Why: for a rejected option, why it is not to be tried again."),
        Field("evidence", "An id (B31, L14) or text; may be repeated.", many=True, metavar="ID|TEXT"),
        Field("status", "How sure it is.", choices=STATUSES),
        Field("supersedes", "The finding that this one replaces.", metavar="F"),
    ),
    (("ID", "id"), ("KIND", "kind"), ("STATUS", "status"), ("TITLE", "title"), ("REASON", "reason"),
     ("EVIDENCE", "evidence"), ("AT", "at")),
)  # fmt: skip

app = noun("Findings: root causes, constraints, decisions, rejected options, hypotheses, observations.")
add_verbs(app, TABLE)
