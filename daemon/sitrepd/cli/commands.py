"""`sitrep command`: shell commands that agents and people ran, with what came of them."""

from __future__ import annotations

from sitrepd.cli import values
from sitrepd.cli.nouns import Field, NounTable, add_verbs
from sitrepd.cli.verbs import noun

KINDS = ("server", "benchmark", "training", "profile", "install", "other")
TABLE = NounTable(
    "command",
    "commands",
    (
        Field("command", "The shell command line, word for word.", values.text, argument=True),
        Field("kind", "What it does.", choices=KINDS),
        Field("cwd", "Where it ran.", metavar="DIR"),
        Field("exit_code", "Its exit status.", values.number, option="exit-code", metavar="N"),
        Field("duration_ms", "How long it took.", values.number, option="duration-ms", metavar="N"),
        Field("output", "What it printed; `-` reads it from standard input.", values.text),
        Field("host", "The host that it ran on.", metavar="H"),
        Field("results", "Id of a fact that came of it; may be repeated.", many=True, option="result", metavar="ID"),
        Field("output_path", "Where all of its output is.", option="output-path", metavar="PATH"),
    ),
    (("ID", "id"), ("KIND", "kind"), ("EXIT", "exit_code"), ("MS", "duration_ms"), ("COMMAND", "command"),
     ("BY", "provenance"), ("AT", "at")),
)  # fmt: skip

app = noun("Commands that agents and people ran. `sitrep run -- COMMAND` runs and keeps one.")
add_verbs(app, TABLE)
