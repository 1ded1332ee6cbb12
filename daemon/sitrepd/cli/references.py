"""`sitrep reference`: results that somebody else published."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sitrepd.cli import output, values
from sitrepd.cli.nouns import Field, NounTable, add_verbs
from sitrepd.cli.verbs import Cli, noun, verb
from sitrepd.figures import short_text

TABLE = NounTable(
    "reference",
    "references",
    (
        Field("name", "What it is called.", argument=True),
        Field("source", "Who published it, and where."),
        Field("metrics", "NAME=VALUE[:UNIT[:higher|lower]]; may be repeated.", values.metrics, many=True,
              option="metric", metavar="METRIC"),
        Field("model", "What model it was measured with."),
        Field("hardware", "On what, such as `8 × NVIDIA H200`."),
        Field("config", "NAME=VALUE of a setting that it was measured with; may be repeated.", values.pairs, many=True,
              metavar="PAIR"),
        Field("workload", "NAME=VALUE of what was asked of the server; may be repeated.", values.pairs, many=True,
              metavar="PAIR"),
        Field("note", "More of it."),
    ),
    (("ID", "id"), ("NAME", "name"), ("SOURCE", "source"),
     ("METRICS", lambda told: output.measures(told.get("metrics"))), ("MODEL", "model"), ("HARDWARE", "hardware"),
     ("NOTE", "note")),
)  # fmt: skip

app = noun("References: results that somebody else published.")
add_verbs(app, TABLE)


@verb(app, "compare")
def compare(
    cli: Cli, references: Annotated[list[str] | None, typer.Argument(metavar="R", help="Only these.")] = None
) -> None:
    """Put published results beside one's own best by each metric, and say what differs."""
    answer = cli.client.get("/sessions/current/comparison/references")
    wanted = {one.upper() for one in references or ()}
    known = {one["reference"] for one in answer.data["data"]}
    if wanted - known:
        raise typer.BadParameter(f"The session has no reference {', '.join(sorted(wanted - known))}.")
    data = [one for one in answer.data["data"] if not wanted or one["reference"] in wanted]
    if cli.json:
        output.as_json({"data": data})
        return
    if not data:
        output.say("No references yet.")
    for place, one in enumerate(data):
        if place:
            output.say()
        _say(one)


def _say(told: dict[str, Any]) -> None:
    output.say(f"{told['reference']} {told['name']}")
    if told.get("why"):
        output.say(told["why"])
        return
    output.table(told["sides"], (
        ("METRIC", "metric"), ("PUBLISHED", "theirs"), ("OWN", lambda told: short_text(told["ours"])),
        ("UNIT", "unit"), ("DIFFERENCE", "difference"),
        ("", "verdict"), ("OF", "id"), ("CONFIGURATION", "label"),
    ))  # fmt: skip
    titles = {"Differs": "differs", "Known of one side alone": "unknown", "Not measured here": "missing"}
    for title, lines in ((title, told[name]) for title, name in titles.items()):
        if lines:
            output.say(f"{title}: {'; '.join(lines)}.")
