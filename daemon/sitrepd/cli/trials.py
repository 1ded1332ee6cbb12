"""`sitrep trial`: one launch of a sweep with its benchmarks."""

from __future__ import annotations

from sitrepd.cli import values
from sitrepd.cli.nouns import Field, NounTable, add_verbs
from sitrepd.cli.verbs import noun

TABLE = NounTable(
    "trial",
    "trials",
    (
        Field("sweep", "The sweep that it belongs to.", metavar="W", argument=True),
        Field("launch", "The launch that it made.", metavar="L"),
        Field("benchmarks", "A benchmark that it ran; may be repeated.", many=True, option="benchmark", metavar="B"),
        Field("state", "planned, running, done, failed or skipped."),
        Field("name", "What it is called."),
        Field("why", "Why it failed, or was skipped."),
        Field("baseline", "The trial that the others are compared with.", flag=True),
        Field("settings", "FLAG=VALUE that it sets; may be repeated.", values.pairs, many=True, option="set",
              metavar="PAIR"),
    ),
    (("ID", "id"), ("SWEEP", "sweep"), ("NAME", "name"), ("STATE", "state"), ("LAUNCH", "launch"),
     ("BENCHMARKS", "benchmarks"), ("WHY", "why")),
)  # fmt: skip

app = noun("Trials of sweeps.")
add_verbs(app, TABLE)
