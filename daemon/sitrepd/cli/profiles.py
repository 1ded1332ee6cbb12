"""`sitrep profile`: time per phase inside a launch or a benchmark."""

from __future__ import annotations

from sitrepd.cli import values
from sitrepd.cli.nouns import Field, NounTable, add_verbs
from sitrepd.cli.verbs import noun

TABLE = NounTable(
    "profile",
    "profiles",
    (
        Field("phases", "NAME:calls=400,total_ms=8204.1,mean_ms=20.5; may be repeated.", values.phases, many=True,
              option="phase", metavar="PHASE"),
        Field("launch", "The launch that was profiled.", metavar="L"),
        Field("benchmark", "The benchmark that was profiled.", metavar="B"),
    ),
    (("ID", "id"), ("LAUNCH", "launch"), ("BENCHMARK", "benchmark"),
     ("PHASES", lambda told: [f"{one['name']} {one.get('mean_ms', '?')} ms" for one in told["phases"]]), ("AT", "at")),
)  # fmt: skip

app = noun("Profiles: time per phase inside a launch or a benchmark.")
add_verbs(app, TABLE)
