"""`sitrep stack`: which software versions a launch ran on."""

from __future__ import annotations

from sitrepd.cli import values
from sitrepd.cli.nouns import Field, NounTable, add_verbs
from sitrepd.cli.verbs import noun

TABLE = NounTable(
    "stack",
    "stacks",
    (
        Field("launch", "The launch that ran on it.", metavar="L"),
        Field("host", "The host that it is on.", metavar="H"),
        Field("packages", "NAME=VERSION; may be repeated.", values.text_pairs, many=True, option="package",
              metavar="PAIR"),
        Field("driver", "Version of the GPU driver."),
        Field("cuda", "Version of CUDA."),
        Field("python", "Version of Python."),
        Field("os", "The operating system."),
        Field("git", "Working trees that take part, as JSON: [{\"path\": …, \"commit\": …, \"dirty\": …}].",
              values.strict_json, metavar="JSON"),
    ),
    (("ID", "id"), ("LAUNCH", "launch"), ("HOST", "host"), ("PYTHON", "python"), ("CUDA", "cuda"),
     ("DRIVER", "driver"), ("PACKAGES", "packages")),
)  # fmt: skip

app = noun("Stacks: which software versions a launch ran on.")
add_verbs(app, TABLE)
